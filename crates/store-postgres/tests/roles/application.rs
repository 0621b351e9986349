//! The application's role can do everything that a store does, from appends to maintenance.

use std::time::Duration;

use futures_util::future::join_all;
use tidelock_store::{
    Adjustment, AfterTrim, Append, Bounds, Commit, CommitId, ExpectedRevision, ExpectedVersion,
    HeadQuery, ItemFilter, ItemQuery, Mark, Position, RecordQuery, RecordWrite, Renewal,
    Settlement, Store, StoreExt, Topic, Version, Wake, When,
};

use crate::ground::{accepted, append, committed, event, feed_after, item, lease, soon, stream};
use crate::{Shop, key, put};

/// Every way in which an append is written: alone under each expectation, in a batch, and beside
/// other parts.
#[tokio::test]
async fn the_application_appends_closes_and_trims() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    let a = stream("a");
    let third = ExpectedVersion::Exact(Version::new(3).unwrap());
    for expected in
        [ExpectedVersion::NoStream, ExpectedVersion::Exists, ExpectedVersion::Any, third]
    {
        committed(&store, Commit::new().append(&a, expected, [event("alone")])).await;
    }
    let crowd = (0..50).map(|nth| append(&format!("b{}", nth % 20), "in a crowd"));
    join_all(crowd.map(|append| committed(&store, append))).await;
    let closing =
        Append::new(&a, ExpectedVersion::Exists, [event("last"), event("words")]).and_close();
    committed(&store, Commit::new().with_append(closing)).await;
    committed(&store, Commit::new().trim(&a, Version::new(3).unwrap(), AfterTrim::Reopen)).await;
    committed(&store, append("a", "again").write(put("beside"))).await;

    assert_eq!(store.read_whole_stream(&a).await.unwrap().len(), 4);
    assert_eq!(feed_after(&store, Position::START).await.len(), 54);
    assert_eq!(store.heads(HeadQuery::prefix("b")).await.unwrap().heads.len(), 20);
}

#[tokio::test]
async fn the_application_writes_records_and_guards_what_is_absent() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    let id = CommitId::fresh();
    for _ in 0..2 {
        committed(
            &store,
            Commit::new().with_id(id).write(RecordWrite::add(&key("sum"), 1, Bounds::NONE)),
        )
        .await;
        committed(&store, Commit::new().write(put("a"))).await;
    }
    committed(
        &store,
        Commit::new().write(RecordWrite::delete(&key("a"), ExpectedRevision::Exists)),
    )
    .await;
    let guarded = Commit::new()
        .write(put("b"))
        .write(RecordWrite::delete(&key("never"), ExpectedRevision::Any))
        .guard_stream(&stream("never"), ExpectedVersion::NoStream)
        .guard_record(&key("neither"), ExpectedRevision::Absent);
    committed(&store, guarded).await;

    let found = store.scan(RecordQuery::prefix("")).await.unwrap().records;
    let found: Vec<_> =
        found.iter().map(|record| (record.key.as_str(), record.value.as_str())).collect();
    assert_eq!(found, [("b", "1"), ("sum", "1")]);
    assert_eq!(
        shop.admin.one::<i64>("SELECT count(*) FROM tidelock.records").await,
        3,
        "none is held"
    );
}

#[tokio::test]
async fn the_application_leases_renews_settles_and_adjusts() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    committed(&store, Commit::new().wake(Wake::to_mark(item("a"), Mark::new(1).unwrap()))).await;
    let held = lease(&store, "worker", 1).await.remove(0);
    let renewed = store.renew(&[held.token()], Duration::from_secs(90)).await.unwrap();
    assert!(matches!(renewed[0], Renewal::Renewed(_)), "{renewed:?}");
    committed(&store, Commit::new().settle(held.ack())).await;
    let back = Adjustment::Reset { to: Mark::ZERO };
    let adjusted = store.adjust(ItemFilter::default(), back).await.unwrap();
    assert_eq!((adjusted.matched, adjusted.changed), (1, 1));
    assert_eq!(store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn user_transactions_of_the_application_commit_and_notify() {
    let shop = Shop::new().await;
    let (store, other) = (shop.open("app").await, shop.open("app").await);
    shop.admin.run("CREATE TABLE @_totals (n int); GRANT INSERT ON @_totals TO @_app").await;
    let mut signal = other.signal(Topic::Log);
    let own = store.begin().await.unwrap();
    let insert = format!("INSERT INTO {}_totals VALUES ($1)", shop.ground.schema);
    own.execute(&insert, &[&1_i32]).await.unwrap();
    accepted(own.commit(append("a", "in a user transaction")).await.unwrap());
    soon("a notification", signal.wait()).await;
    assert_eq!(shop.admin.one::<i64>("SELECT count(*) FROM @_totals").await, 1);
}

/// KEEP-1 to KEEP-4: maintenance once a second. Expired records lose their value and are removed
/// later, finished items, emptied streams and old commits are removed, the clock is saved.
#[tokio::test]
async fn the_application_sweeps_what_has_had_its_time() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    let short = put("short").expiring(When::In(Duration::from_micros(1)));
    committed(&store, Commit::new().with_id(CommitId::fresh()).write(short)).await;
    shop.admin.run("UPDATE tidelock.commits SET forget_at = 1").await;
    committed(&store, Commit::new().wake(Wake::to_mark(item("a"), Mark::new(1).unwrap()))).await;
    let held = lease(&store, "worker", 1).await.remove(0);
    let finished = Settlement::finish(held.token(), held.mark, When::NOW);
    committed(&store, Commit::new().settle(finished)).await;
    committed(&store, append("run/a", "only")).await;
    let close = Append::closing(&stream("run/a"), ExpectedVersion::Exists);
    let forget = AfterTrim::Forget(When::NOW);
    committed(
        &store,
        Commit::new().with_append(close).trim(&stream("run/a"), Version::FIRST, forget),
    )
    .await;
    // Only a store that is used does maintenance.
    committed(&store, Commit::new().write(put("b"))).await;
    let swept = "SELECT value IS NULL FROM tidelock.records WHERE key = 'short'";
    shop.admin.until("the record is swept", swept).await;
    for left in ["commits", "items", "streams"] {
        let none = format!("SELECT count(*) = 0 FROM tidelock.{left}");
        shop.admin.until(&format!("{left} are forgotten"), &none).await;
    }
    shop.admin.run("UPDATE tidelock.records SET expires_at = 1 WHERE key = 'short'").await;
    store.sweep().await.unwrap();
    assert_eq!(shop.admin.all::<String>("SELECT key FROM tidelock.records").await, ["b"]);
    let floors = "SELECT revision_floor = 1 AND fence_floor = 1 FROM tidelock.meta";
    assert!(shop.admin.one::<bool>(floors).await);
    committed(&store, append("run/a", "again")).await;
    assert_eq!(shop.admin.one::<i64>("SELECT version FROM tidelock.streams").await, 2);
    shop.admin.until("the clock is written down", "SELECT clock > 0 FROM tidelock.meta").await;
}

/// Schedule 3, in a role that sees of other sessions only that they exist: how far, since when, and
/// which one.
#[tokio::test]
async fn the_application_sees_which_session_blocks_the_feed_and_since_when() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    let holder = shop.ground.connect().await;
    holder
        .run("BEGIN; SELECT tidelock.append_one('slow', -1, gen_random_uuid(), 'said', '1', '{}')")
        .await;
    committed(&store, append("a", "behind")).await;

    let held = store.blockers().await.unwrap().feed.expect("the feed is held up");
    assert_eq!(
        (held.by.session, held.behind),
        (holder.one("SELECT pg_backend_pid()").await, 2),
        "{held:?}"
    );
    assert_eq!((held.by.open_for, held.by.state), (None, None), "it does not see that");
    let longer = async {
        while store
            .blockers()
            .await
            .unwrap()
            .feed
            .is_none_or(|feed| feed.standing_for <= held.standing_for)
        {}
    };
    soon("the time to grow", longer).await;
    holder.run("ROLLBACK").await;
}

/// TIME-2, in the role that has to keep it.
#[tokio::test]
async fn the_application_mends_a_calendar_that_was_set_back() {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    let before = store.now().await.unwrap();
    shop.set_calendar_back().await;
    assert!(store.now().await.unwrap() >= before);
    assert!(shop.admin.one::<i64>("SELECT shift FROM tidelock.meta").await > 0);
}

/// Schedule 77, in the role that detects it.
#[tokio::test]
async fn the_application_begins_an_epoch_when_the_database_has_moved() {
    let shop = Shop::new().await;
    shop.admin.run("UPDATE tidelock.epochs SET home = 'elsewhere'").await;
    committed(&shop.open("app").await, Commit::new().write(put("a"))).await;
    assert!(shop.admin.one::<bool>("SELECT epoch > 0 FROM tidelock.meta").await);
}
