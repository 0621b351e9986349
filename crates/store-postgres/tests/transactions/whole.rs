//! A user's rows are committed with the commit, and not without it.

use std::time::Duration;

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, RecordKey, RecordWrite, RetryAdvice, StoreErrorKind,
};

use crate::ground::{accepted, append, committed, event, lease, lease_for, stream, wake};
use crate::{Shop, trials};

trials!(
    rows_and_events_land_together,
    the_rows_are_invisible_before_the_commit,
    a_conflict_undoes_the_rows,
    a_lost_lease_undoes_the_rows,
    a_transaction_that_is_dropped_leaves_nothing,
    a_commit_of_nothing_leaves_nothing,
    an_error_in_user_sql_leaves_nothing,
    a_commit_that_only_checks_lets_the_rows_land,
    a_transaction_that_was_ended_by_hand_takes_no_commit,
    what_is_absent_is_held_after_what_is_there_is_locked,
    user_statements_are_planned_with_the_defaults,
);

/// COMMIT-1, with user SQL.
async fn rows_and_events_land_together() {
    let shop = Shop::new().await;
    for sold in 1..=3 {
        accepted(shop.sell_and(append("sales", "tea")).await.unwrap());
        assert_eq!(shop.found().await, (sold, sold));
    }
}

async fn the_rows_are_invisible_before_the_commit() {
    let shop = Shop::new().await;
    let own = shop.sell().await;
    assert_eq!(shop.found().await, (0, 0));
    let count = format!("SELECT count(*) FROM {}_sales", shop.ground.schema);
    assert_eq!(own.query(&count, &[]).await.unwrap()[0].get::<_, i64>(0), 1);
    accepted(own.commit(append("sales", "tea")).await.unwrap());
    assert_eq!(shop.found().await, (1, 1));
}

async fn a_conflict_undoes_the_rows() {
    let shop = Shop::new().await;
    let first =
        || Commit::new().append(&stream("sales"), ExpectedVersion::NoStream, [event("tea")]);
    committed(&shop.store, first()).await;
    let conflict = shop.sell_and(first()).await.unwrap().conflict().expect("there is a stream");
    assert_eq!(conflict.to_string(), r#"stream "sales": expected no stream, found version 1"#);
    assert_eq!(shop.found().await, (0, 1));
    accepted(shop.sell_and(append("sales", "tea")).await.unwrap());
    assert_eq!(shop.found().await, (1, 2), "the connection is as good as before");
}

/// LEASE-5, with user SQL.
async fn a_lost_lease_undoes_the_rows() {
    let shop = Shop::new().await;
    committed(&shop.store, wake("a")).await;
    let late = lease_for(&shop.store, "late", 1, Duration::from_micros(1)).await.remove(0);
    let held = lease(&shop.store, "quick", 1).await.remove(0);
    for commit in [Commit::new().settle(late.ack()), Commit::new().fenced_by(late.token())] {
        assert!(shop.sell_and(commit).await.unwrap().conflict().is_some());
    }
    assert_eq!(shop.found().await, (0, 0));
    accepted(shop.sell_and(Commit::new().settle(held.ack())).await.unwrap());
    assert_eq!(shop.found().await, (1, 0));
}

async fn a_transaction_that_is_dropped_leaves_nothing() {
    let shop = Shop::new().await;
    drop(shop.sell().await);
    shop.plain.until_none_is_open().await;
    assert_eq!(shop.found().await, (0, 0));
}

async fn a_commit_of_nothing_leaves_nothing() {
    let shop = Shop::new().await;
    let refused = shop.sell_and(Commit::new()).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Invalid, RetryAdvice::Never),
        "{refused}"
    );
    shop.plain.until_none_is_open().await;
    assert_eq!(shop.found().await, (0, 0));
}

/// Even if the caller ignores errors.
async fn an_error_in_user_sql_leaves_nothing() {
    let shop = Shop::new().await;
    let own = shop.sell().await;
    own.execute("INSERT INTO nowhere VALUES (1)", &[]).await.unwrap_err();
    let refused = own.commit(append("sales", "tea")).await.unwrap_err();
    assert_eq!(refused.advice(), RetryAdvice::Later, "nothing has happened: {refused}");
    shop.plain.until_none_is_open().await;
    assert_eq!(shop.found().await, (0, 0));
}

/// Such a commit writes nothing to the store; the rows are written all the same.
async fn a_commit_that_only_checks_lets_the_rows_land() {
    let shop = Shop::new().await;
    committed(&shop.store, wake("a")).await;
    let held = lease(&shop.store, "worker", 1).await.remove(0);
    let never = RecordKey::new("never").unwrap();
    let checks = [
        Commit::new().fenced_by(held.token()),
        Commit::new().guard_stream(&stream("never"), ExpectedVersion::NoStream),
        Commit::new().guard_record(&never, ExpectedRevision::Absent),
        Commit::new().write(RecordWrite::delete(&never, ExpectedRevision::Any)),
    ];
    for (sold, check) in (1..).zip(checks) {
        accepted(shop.sell_and(check.clone()).await.unwrap());
        assert_eq!(shop.found().await, (sold, 0), "{check:?}");
    }
}

/// The commit would be separate then, and not even atomic.
async fn a_transaction_that_was_ended_by_hand_takes_no_commit() {
    let shop = Shop::new().await;
    let own = shop.sell().await;
    own.execute("ROLLBACK", &[]).await.unwrap();
    let refused = own.commit(append("sales", "tea")).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Invalid, RetryAdvice::Never),
        "{refused}"
    );
    assert!(refused.to_string().contains("ended"), "{refused}");
    shop.plain.until_none_is_open().await;
    assert_eq!(shop.found().await, (0, 0));
    assert_eq!(shop.plain.one::<i64>("SELECT count(*) FROM tidelock.streams").await, 0);
}

/// Schedule 66: every writer locks streams first and records second, so a user transaction must not
/// do it the other way round.
async fn what_is_absent_is_held_after_what_is_there_is_locked() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "tea")).await;
    let other = shop.ground.connect().await;
    other.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'sales' FOR UPDATE").await;
    let absent = RecordKey::new("absent").unwrap();
    let guarded = append("sales", "tea").guard_record(&absent, ExpectedRevision::Absent);
    let (outcome, ()) = tokio::join!(shop.sell_and(guarded), async {
        shop.plain.until_blocked(1).await;
        other
            .run("INSERT INTO tidelock.records (key, revision, value) VALUES ('absent', 1, '0'); COMMIT")
            .await;
    });
    assert!(outcome.unwrap().conflict().is_some(), "it is not absent any more");
    assert_eq!(shop.found().await, (0, 1));
}

/// The store's own statements want indexes and nothing else; a join over a user's tables would
/// suffer from that.
async fn user_statements_are_planned_with_the_defaults() {
    let shop = Shop::new().await;
    for _ in 0..2 {
        let own = shop.sell().await;
        for setting in ["enable_seqscan", "enable_hashjoin", "enable_mergejoin"] {
            let rows = own.query(&format!("SHOW {setting}"), &[]).await.unwrap();
            assert_eq!(rows[0].get::<_, &str>(0), "on", "{setting}");
        }
        accepted(own.commit(append("sales", "tea")).await.unwrap());
    }
}
