//! Commits in a transaction that the user began, on the user's connection.

use std::collections::BTreeSet;
use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Bounds, Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion,
    FeedQuery, Position, RawJson, RecordKey, RecordWrite, RetryAdvice, Store, StoreErrorKind,
    Topic, Trim, Version,
};
use tidelock_store_postgres::tokio_postgres::{Client, IsolationLevel, Transaction};
use tidelock_store_postgres::{PendingCommit, PostgresStore};
use tidelock_test_postgres::Server;

use crate::ground::{
    Ground, NEVER, accepted, append, committed, event, feed_after, lease, lease_for, said, soon,
    stream, wake,
};
use crate::worker::{Part, Worker, order, say};
use crate::{Shop, trials};

trials!(
    rows_and_events_land_with_the_callers_commit,
    a_rollback_leaves_nothing_and_the_feed_passes_its_gap,
    a_conflict_leaves_the_transaction_as_it_was,
    an_error_leaves_the_transaction_as_it_was,
    a_lost_lease_is_refused_and_a_held_one_settles,
    a_failed_transaction_is_refused,
    a_read_only_transaction_is_refused,
    a_transaction_that_a_crash_could_undo_is_refused,
    a_transaction_in_another_database_is_refused,
    a_transaction_on_another_server_is_refused,
    a_trim_is_refused,
    a_restarted_server_is_the_same_database,
    the_callers_search_path_does_not_matter,
    two_commits_in_one_transaction_are_in_order,
    an_absent_record_is_held_until_the_callers_commit,
    the_feed_waits_for_an_open_transaction_that_has_events,
    the_feed_does_not_wait_for_a_transaction_without_events,
    an_older_transaction_that_appends_later_is_not_skipped,
    the_session_that_holds_back_the_feed_is_named,
    a_reader_sees_every_event_once_beside_many_open_transactions,
    a_normal_commit_waits_for_the_rows_and_lands_after_them,
    a_commit_with_an_id_is_made_once,
    a_concurrent_commit_with_the_same_id_is_made_once,
    the_same_events_are_not_appended_twice,
    a_stale_snapshot_is_refused_and_a_fresh_one_lands,
    a_stale_snapshot_reuses_no_number,
    serializable_transactions_commit,
    a_call_that_was_cut_off_cannot_be_committed,
    a_call_that_was_cut_off_can_be_rolled_back_to_a_savepoint,
    waiters_hear_of_it_once_it_is_announced,
    a_process_killed_between_the_call_and_its_commit_leaves_nothing,
    a_connection_that_is_terminated_leaves_nothing,
    two_processes_append_in_turn,
);

/// Records a sale in a transaction.
async fn sell(sql: &Transaction<'_>, shop: &Shop) {
    let insert = format!("INSERT INTO {}_sales VALUES ('tea')", shop.ground.schema);
    sql.batch_execute(&insert).await.unwrap();
}

async fn commit_in(
    store: &PostgresStore,
    sql: &mut Transaction<'_>,
    commit: &Commit,
) -> PendingCommit {
    soon("a commit in a transaction", store.commit_in(sql, commit)).await.unwrap()
}

/// A sale and a commit, in one transaction of the caller.
async fn sell_in(shop: &Shop, client: &mut Client, commit: &Commit) -> PendingCommit {
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, shop).await;
    let pending = commit_in(&shop.store, &mut sql, commit).await;
    sql.commit().await.unwrap();
    pending
}

async fn at_level(client: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    client.build_transaction().isolation_level(level).start().await.unwrap()
}

async fn everything(store: &PostgresStore) -> Vec<String> {
    said(&feed_after(store, Position::START).await)
}

fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

fn put(name: &str, expected: ExpectedRevision) -> Commit {
    Commit::new().write(RecordWrite::put(&key(name), expected, RawJson::new(&1).unwrap()))
}

/// COMMIT-8.
async fn rows_and_events_land_with_the_callers_commit() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    for sold in 1..=3_i64 {
        let mut sql = client.transaction().await.unwrap();
        sell(&sql, &shop).await;
        let both = append("sales", "tea").write(RecordWrite::add(
            &key("sold"),
            1,
            Bounds::from_range(..=3),
        ));
        let pending = commit_in(&shop.store, &mut sql, &both).await;
        assert_eq!(
            shop.found().await,
            (sold - 1, sold - 1),
            "nothing is visible before the COMMIT"
        );
        sql.commit().await.unwrap();
        assert_eq!(shop.found().await, (sold, sold));
        let made = pending.outcome().clone().committed().unwrap();
        let last = feed_after(&shop.store, Position::START).await.pop().unwrap();
        assert_eq!(made.appends[0].positions, Some((last.position, last.position)));
        assert_eq!(made.at, last.recorded_at);
        pending.announce();
    }
    let full = shop.store.commit(Commit::new().write(RecordWrite::add(
        &key("sold"),
        1,
        Bounds::from_range(..=3),
    )));
    assert!(full.await.unwrap().conflict().is_some(), "the record was written three times");
}

/// COMMIT-8; LOG-7. Schedule 4.
async fn a_rollback_leaves_nothing_and_the_feed_passes_its_gap() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let new = Commit::new()
        .append(&stream("new"), ExpectedVersion::NoStream, [event("undone")])
        .write(RecordWrite::put(&key("r"), ExpectedRevision::Absent, RawJson::new(&1).unwrap()))
        .with_id(CommitId::fresh());
    let new = wake("undone").wakes.into_iter().fold(new, Commit::wake);
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    let undone = commit_in(&shop.store, &mut sql, &new).await;
    committed(&shop.store, append("other", "after")).await;
    assert_eq!(everything(&shop.store).await, Vec::<String>::new(), "it may still come first");
    sql.rollback().await.unwrap();
    assert_eq!(everything(&shop.store).await, ["after"]);
    undone.announce();
    assert_eq!(shop.found().await, (0, 1));
    assert!(lease(&shop.store, "w", 10).await.is_empty());
    assert_eq!(shop.plain.one::<i64>("SELECT count(*) FROM tidelock.commits").await, 0);
    let again = accepted(shop.store.commit(new).await.unwrap());
    assert_eq!(again.appends[0].version, Version::FIRST, "neither stream nor record was there");
}

/// COMMIT-9.
async fn a_conflict_leaves_the_transaction_as_it_was() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "tea")).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    let first = Commit::new().append(&stream("sales"), ExpectedVersion::NoStream, [event("tea")]);
    let pending = commit_in(&shop.store, &mut sql, &first).await;
    let CommitOutcome::Conflict(conflict) = pending.outcome() else { panic!("there is a stream") };
    assert_eq!(conflict.to_string(), r#"stream "sales": expected no stream, found version 1"#);
    // Its locks are gone, and so is everything else.
    committed(&shop.store, append("sales", "milk")).await;
    sell(&sql, &shop).await;
    accepted(commit_in(&shop.store, &mut sql, &append("sales", "jam")).await.outcome().clone());
    sql.commit().await.unwrap();
    assert_eq!(shop.found().await, (2, 3));
}

/// COMMIT-9.
async fn an_error_leaves_the_transaction_as_it_was() {
    let shop = Shop::new().await;
    let id = CommitId::fresh();
    committed(&shop.store, append("sales", "tea").with_id(id)).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    let other = append("sales", "coffee").with_id(id);
    let refused = shop.store.commit_in(&mut sql, &other).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::IdempotencyMismatch, "{refused}");
    sql.commit().await.unwrap();
    assert_eq!(shop.found().await, (1, 1));
}

/// LEASE-5, in a transaction of the caller.
async fn a_lost_lease_is_refused_and_a_held_one_settles() {
    let shop = Shop::new().await;
    committed(&shop.store, wake("a")).await;
    let late = lease_for(&shop.store, "late", 1, Duration::from_micros(1)).await.remove(0);
    let held = lease(&shop.store, "quick", 1).await.remove(0);
    let mut client = shop.ground.stranger().await;
    for commit in [Commit::new().settle(late.ack()), append("s", "x").fenced_by(late.token())] {
        let pending = sell_in(&shop, &mut client, &commit).await;
        assert!(pending.outcome().clone().conflict().is_some());
    }
    for commit in [append("s", "y").fenced_by(held.token()), Commit::new().settle(held.ack())] {
        accepted(sell_in(&shop, &mut client, &commit).await.outcome().clone());
    }
    assert_eq!(everything(&shop.store).await, ["y"]);
    let again = sell_in(&shop, &mut client, &Commit::new().settle(held.ack())).await;
    assert!(again.made_before(), "settled in the same way");
}

async fn a_failed_transaction_is_refused() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sql.batch_execute("INSERT INTO nowhere VALUES (1)").await.unwrap_err();
    let refused = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    assert!(refused.to_string().contains("has failed before"), "{refused}");
}

async fn a_read_only_transaction_is_refused() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.build_transaction().read_only(true).start().await.unwrap();
    let refused = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
    assert!(refused.to_string().contains("read only"), "{refused}");
    sql.commit().await.unwrap();
}

/// COMMIT-5.
async fn a_transaction_that_a_crash_could_undo_is_refused() {
    let shop = Shop::new().await;
    let lossy = shop.ground.open_with(|options| options.allow_lossy = true).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sql.batch_execute("SET LOCAL synchronous_commit = off").await.unwrap();
    let refused = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
    assert!(refused.to_string().contains("synchronous_commit"), "{refused}");
    accepted(commit_in(&lossy, &mut sql, &append("sales", "tea")).await.outcome().clone());
    sql.commit().await.unwrap();
}

/// COMMIT-8.
async fn a_transaction_in_another_database_is_refused() {
    let server = Server::start().unwrap();
    let shop = Shop::on(Ground::on(&server.url())).await;
    shop.plain.run("CREATE DATABASE elsewhere").await;
    let (base, _) = shop.ground.url.rsplit_once('/').unwrap();
    let ground = shop.ground.elsewhere(&format!("{base}/elsewhere"));
    for has_a_store in [false, true] {
        if has_a_store {
            // Of the same name, so only the database tells them apart.
            ground.open().await.close().await.unwrap();
        }
        let mut client = ground.stranger().await;
        let mut sql = client.transaction().await.unwrap();
        let refused = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
        assert!(refused.to_string().contains("another database"), "{refused}");
        sql.batch_execute("SELECT 1").await.expect("the transaction is as it was");
    }
    assert_eq!(shop.found().await, (0, 0));
}

/// COMMIT-8. Two servers whose data is the same to the byte.
async fn a_transaction_on_another_server_is_refused() {
    let server = Server::start().unwrap();
    let shop = Shop::on(Ground::on(&server.url())).await;
    let standby = server.standby("replica").unwrap();
    standby.promote().unwrap();
    let ground = shop.ground.elsewhere(&standby.url());
    let mut client = ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    let refused = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
}

/// The store finds out by itself that an epoch has begun.
async fn a_restarted_server_is_the_same_database() {
    let server = Server::start().unwrap();
    let shop = Shop::on(Ground::on(&server.url())).await;
    committed(&shop.store, append("sales", "tea")).await;
    server.kill().unwrap();
    server.start_again().unwrap();
    let mut client = shop.ground.stranger().await;
    let pending = sell_in(&shop, &mut client, &append("sales", "milk")).await;
    accepted(pending.outcome().clone());
    assert_eq!(everything(&shop.store).await, ["tea", "milk"]);
}

async fn a_trim_is_refused() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "tea")).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    let trim =
        Trim { stream: stream("sales"), through: Version::FIRST, then: AfterTrim::StayClosed };
    let trimmed = Commit { trims: vec![trim], ..Commit::new() };
    let refused = shop.store.commit_in(&mut sql, &trimmed).await.unwrap_err();
    assert!(refused.to_string().contains("trim"), "{refused}");
}

async fn the_callers_search_path_does_not_matter() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let name = shop.ground.schema.as_str();
    let decoys = format!(
        "CREATE SCHEMA {name}_theirs; SET search_path = {name}_theirs;
         CREATE TABLE streams (name text); CREATE TABLE events (id uuid); CREATE TABLE meta (one text);
         CREATE FUNCTION take_ticket(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'"
    );
    client.batch_execute(&decoys).await.unwrap();
    let mut sql = client.transaction().await.unwrap();
    accepted(commit_in(&shop.store, &mut sql, &append("sales", "tea")).await.outcome().clone());
    sql.commit().await.unwrap();
    assert_eq!(everything(&shop.store).await, ["tea"]);
}

/// COMMIT-8; LOG-7.
async fn two_commits_in_one_transaction_are_in_order() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    for text in ["one", "two"] {
        accepted(commit_in(&shop.store, &mut sql, &append("sales", text)).await.outcome().clone());
        committed(&shop.store, append("other", &format!("after {text}"))).await;
    }
    assert_eq!(everything(&shop.store).await, Vec::<String>::new());
    sql.commit().await.unwrap();
    assert_eq!(everything(&shop.store).await, ["one", "after one", "two", "after two"]);
}

/// COMMIT-3.
async fn an_absent_record_is_held_until_the_callers_commit() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    let guarded = append("sales", "tea").guard_record(&key("absent"), ExpectedRevision::Absent);
    accepted(commit_in(&shop.store, &mut sql, &guarded).await.outcome().clone());
    let (created, ()) =
        tokio::join!(shop.store.commit(put("absent", ExpectedRevision::Any)), async {
            shop.plain.until_blocked(1).await;
            sql.commit().await.unwrap();
        });
    accepted(created.unwrap());
    assert_eq!(everything(&shop.store).await, ["tea"]);
}

/// LOG-7. Schedule 1: a position that was drawn in the caller's transaction is visible after a
/// later one.
async fn the_feed_waits_for_an_open_transaction_that_has_events() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    committed(&shop.store, append("a", "before")).await;
    let mut sql = client.transaction().await.unwrap();
    let pending = commit_in(&shop.store, &mut sql, &append("b", "open")).await;
    let later = committed(&shop.store, append("c", "later")).await;
    let open = pending.outcome().clone().committed().unwrap();
    assert!(open.appends[0].positions < later.appends[0].positions);
    let page = shop.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(said(&page.events), ["before"]);
    sql.commit().await.unwrap();
    assert_eq!(said(&feed_after(&shop.store, page.next).await), ["open", "later"]);
}

/// LOG-7. Schedule 3: an open transaction holds nothing back before it has events.
async fn the_feed_does_not_wait_for_a_transaction_without_events() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    accepted(commit_in(&shop.store, &mut sql, &wake("mail")).await.outcome().clone());
    committed(&shop.store, append("c", "later")).await;
    assert_eq!(everything(&shop.store).await, ["later"]);
    sql.commit().await.unwrap();
    assert_eq!(lease(&shop.store, "w", 10).await.len(), 1);
}

/// LOG-7. Schedule 2: the older transaction draws the later position.
async fn an_older_transaction_that_appends_later_is_not_skipped() {
    let shop = Shop::new().await;
    let (mut old, mut young) = (shop.ground.stranger().await, shop.ground.stranger().await);
    let mut older = old.transaction().await.unwrap();
    sell(&older, &shop).await;
    let mut younger = young.transaction().await.unwrap();
    commit_in(&shop.store, &mut younger, &append("young", "first")).await.announce();
    commit_in(&shop.store, &mut older, &append("old", "second")).await.announce();
    older.commit().await.unwrap();
    assert_eq!(everything(&shop.store).await, Vec::<String>::new());
    younger.commit().await.unwrap();
    assert_eq!(everything(&shop.store).await, ["first", "second"]);
}

/// OPS: what an operator has to find when a caller sits on its transaction.
async fn the_session_that_holds_back_the_feed_is_named() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let session: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let mut sql = client.transaction().await.unwrap();
    commit_in(&shop.store, &mut sql, &append("b", "open")).await.announce();
    committed(&shop.store, append("c", "later")).await;
    let blockers = shop.store.blockers().await.unwrap();
    let feed = blockers.feed.expect("the feed waits");
    assert_eq!(feed.by.session, session);
    assert_eq!(feed.by.state.as_deref(), Some("idle in transaction"));
    let (waiting, named) = tokio::join!(shop.store.commit(append("b", "waits")), async {
        shop.plain.until_blocked(1).await;
        let named = shop.store.blockers().await.unwrap().commits.expect("a commit waits");
        sql.rollback().await.unwrap();
        named
    });
    accepted(waiting.unwrap());
    assert_eq!(named.by.session, session);
}

/// LOG-7, LOG-10. Many callers' transactions, open for different times, some rolled back, beside
/// normal commits; a follower reads all the time.
async fn a_reader_sees_every_event_once_beside_many_open_transactions() {
    const CALLERS: usize = 6;
    const EACH: usize = 25;
    let shop = Shop::new().await;
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (store, mut client) = (shop.ground.open().await, shop.ground.stranger().await);
        tasks.spawn(async move {
            let mut landed = Vec::new();
            for nth in 0..EACH {
                let (text, name) = (format!("{caller}/{nth}"), format!("s-{}", (caller + nth) % 4));
                if caller % 2 == 0 {
                    committed(&store, append(&name, &text)).await;
                    landed.push(text);
                    continue;
                }
                let mut sql = client.transaction().await.unwrap();
                commit_in(&store, &mut sql, &append(&name, &text)).await.announce();
                for _ in 0..nth % 5 {
                    sql.batch_execute("SELECT 1").await.unwrap();
                }
                if nth % 3 == 0 {
                    sql.rollback().await.unwrap();
                } else {
                    sql.commit().await.unwrap();
                    landed.push(text);
                }
            }
            landed
        });
    }
    let (mut seen, mut position, mut landed) = (Vec::new(), Position::START, BTreeSet::new());
    while !tasks.is_empty() {
        while let Some(done) = tasks.try_join_next() {
            landed.extend(done.unwrap());
        }
        let events = feed_after(&shop.store, position).await;
        position = events.last().map_or(position, |event| event.position);
        seen.extend(events);
    }
    seen.extend(feed_after(&shop.store, position).await);
    assert!(seen.is_sorted_by(|a, b| a.position < b.position));
    let (texts, all) = (said(&seen), landed.len());
    assert_eq!(texts.len(), all, "each once");
    assert_eq!(texts.into_iter().collect::<BTreeSet<_>>(), landed);
    assert!(all > CALLERS * EACH / 2, "most of them landed: {all}");
}

/// COMMIT-8. Schedule 5, with one of the two in a caller's transaction.
async fn a_normal_commit_waits_for_the_rows_and_lands_after_them() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "one")).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    let at_one = ExpectedVersion::Exact(Version::FIRST);
    let next = |text| Commit::new().append(&stream("sales"), at_one, [event(text)]);
    accepted(commit_in(&shop.store, &mut sql, &next("two")).await.outcome().clone());
    let (late, ()) = tokio::join!(shop.store.commit(next("too late")), async {
        shop.plain.until_blocked(1).await;
        sql.commit().await.unwrap();
    });
    assert!(late.unwrap().conflict().is_some(), "exactly one of the two lands");
    assert_eq!(everything(&shop.store).await, ["one", "two"]);
}

/// COMMIT-4.
async fn a_commit_with_an_id_is_made_once() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let once = append("sales", "tea").with_id(CommitId::fresh());
    let first = sell_in(&shop, &mut client, &once).await;
    assert!(!first.made_before());
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
        let mut sql = at_level(&mut client, level).await;
        sell(&sql, &shop).await;
        let again = commit_in(&shop.store, &mut sql, &once).await;
        assert!(again.made_before(), "so this transaction is to be rolled back");
        assert_eq!(again.outcome(), first.outcome());
        sql.rollback().await.unwrap();
    }
    assert_eq!(shop.found().await, (1, 1));
    let normal = accepted(shop.store.commit(once).await.unwrap());
    assert_eq!(Ok(normal), first.outcome().clone().committed(), "the store knows it too");
}

/// COMMIT-4.
async fn a_concurrent_commit_with_the_same_id_is_made_once() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let once = put("r", ExpectedRevision::Any).with_id(CommitId::fresh());
    let mut sql = client.transaction().await.unwrap();
    let first = commit_in(&shop.store, &mut sql, &once).await;
    let (again, ()) = tokio::join!(shop.store.commit(once.clone()), async {
        shop.plain.until_blocked(1).await;
        sql.commit().await.unwrap();
    });
    assert_eq!(&again.unwrap(), first.outcome());
}

/// LOG-5.
async fn the_same_events_are_not_appended_twice() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let commit = append("sales", "tea");
    let first = sell_in(&shop, &mut client, &commit).await;
    let mut sql = client.transaction().await.unwrap();
    let again = commit_in(&shop.store, &mut sql, &commit).await;
    assert!(again.made_before());
    let positions = |pending: &PendingCommit| match pending.outcome() {
        CommitOutcome::Committed(made) => made.appends[0].positions,
        CommitOutcome::Conflict(conflict) => panic!("{conflict}"),
    };
    assert_eq!(positions(&again), positions(&first));
    sql.rollback().await.unwrap();
    assert_eq!(shop.found().await, (1, 1));
}

/// COMMIT-10: nothing is judged by a snapshot that is out of date.
async fn a_stale_snapshot_is_refused_and_a_fresh_one_lands() {
    let shop = Shop::new().await;
    committed(&shop.store, put("r", ExpectedRevision::Any)).await;
    committed(&shop.store, append("sales", "one")).await;
    let mut client = shop.ground.stranger().await;
    let changes = [
        (append("sales", "theirs"), append("sales", "ours")),
        (append("new", "theirs"), append("new", "ours")),
        (
            put("r", ExpectedRevision::Any),
            append("x", "ours").guard_record(&key("r"), ExpectedRevision::Exists),
        ),
        (
            put("n", ExpectedRevision::Any),
            append("x", "ours").guard_record(&key("n"), ExpectedRevision::Absent),
        ),
    ];
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        for (theirs, ours) in &changes {
            let mut sql = at_level(&mut client, level).await;
            sql.batch_execute("SELECT 1").await.unwrap();
            let theirs = Commit { appends: renew(&theirs.appends), ..theirs.clone() };
            committed(&shop.store, theirs).await;
            let ours = Commit { appends: renew(&ours.appends), ..ours.clone() };
            match shop.store.commit_in(&mut sql, &ours).await {
                Err(refused) => {
                    assert_eq!(refused.advice(), RetryAdvice::Later, "{refused}");
                    assert!(refused.to_string().contains("roll back"), "{refused}");
                }
                Ok(pending) => panic!("{ours:?} landed on a stale snapshot: {pending:?}"),
            }
            sql.rollback().await.unwrap();
        }
        let mut sql = at_level(&mut client, level).await;
        accepted(
            commit_in(&shop.store, &mut sql, &append("sales", "ours")).await.outcome().clone(),
        );
        sql.commit().await.unwrap();
    }
}

/// The same appends, with other event ids.
fn renew(appends: &[Append]) -> Vec<Append> {
    let renewed = |append: &Append| Append { events: vec![event("again")], ..append.clone() };
    appends.iter().map(renewed).collect()
}

/// LOG-13, REC-7: what was forgotten since the snapshot is not numbered again.
async fn a_stale_snapshot_reuses_no_number() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    let mut sql = at_level(&mut client, IsolationLevel::RepeatableRead).await;
    sql.batch_execute("SELECT 1").await.unwrap();
    shop.plain.run("INSERT INTO tidelock.version_floors VALUES ('sales/', 41)").await;
    shop.plain.run("UPDATE tidelock.meta SET revision_floor = 1000000").await;
    let both = append("sales/1", "tea").write(RecordWrite::put(
        &key("r"),
        ExpectedRevision::Absent,
        RawJson::new(&1).unwrap(),
    ));
    let made = accepted(commit_in(&shop.store, &mut sql, &both).await.outcome().clone());
    sql.commit().await.unwrap();
    assert_eq!(made.appends[0].version.get(), 42);
    assert!(made.writes[0].revision.is_some_and(|revision| revision.get() > 1_000_000));
}

async fn serializable_transactions_commit() {
    let shop = Shop::new().await;
    let mut client = shop.ground.stranger().await;
    for _ in 0..3 {
        let mut sql = at_level(&mut client, IsolationLevel::Serializable).await;
        sell(&sql, &shop).await;
        accepted(commit_in(&shop.store, &mut sql, &append("sales", "tea")).await.outcome().clone());
        sql.commit().await.unwrap();
    }
    assert_eq!(shop.found().await, (3, 3));
}

/// COMMIT-10. Schedule 11, at a moment at which the stream's row is written and the event is not.
async fn a_call_that_was_cut_off_cannot_be_committed() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "tea")).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    cut_off(&shop, &mut sql).await;
    let refused = sql.commit().await.unwrap_err();
    let told = refused.as_db_error().expect("the server refuses").message();
    assert!(told.contains("cut off"), "{told}");
    assert_eq!(shop.found().await, (0, 1));
    accepted(shop.store.commit(append("sales", "milk")).await.unwrap());
}

/// Drops a call when its statements are sent, and the server cannot finish them.
async fn cut_off(shop: &Shop, sql: &mut Transaction<'_>) {
    let session: i32 = sql.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let holder = shop.ground.block_appends().await;
    let waits = format!(
        "SELECT coalesce(wait_event = 'advisory', false) FROM pg_stat_activity WHERE pid = {session}"
    );
    let half = append("sales", "half");
    tokio::select! {
        made = shop.store.commit_in(&mut *sql, &half) => panic!("{made:?}"),
        () = shop.plain.until("the call waits for its ticket", &waits) => {}
    }
    holder.run("ROLLBACK").await;
}

/// COMMIT-10.
async fn a_call_that_was_cut_off_can_be_rolled_back_to_a_savepoint() {
    let shop = Shop::new().await;
    committed(&shop.store, append("sales", "tea")).await;
    let mut client = shop.ground.stranger().await;
    let mut sql = client.transaction().await.unwrap();
    sell(&sql, &shop).await;
    let mut inner = sql.savepoint("part").await.unwrap();
    cut_off(&shop, &mut inner).await;
    inner.rollback().await.unwrap();
    accepted(commit_in(&shop.store, &mut sql, &append("sales", "whole")).await.outcome().clone());
    sql.commit().await.unwrap();
    assert_eq!(everything(&shop.store).await, ["tea", "whole"]);
}

async fn waiters_hear_of_it_once_it_is_announced() {
    let shop = Shop::new().await;
    let patient = shop.ground.open_with(|options| options.poll_interval = NEVER).await;
    let mut client = shop.ground.stranger().await;
    let mut hint = patient.signal(Topic::Log);
    let pending = sell_in(&shop, &mut client, &append("sales", "tea")).await;
    assert_eq!(everything(&patient).await, ["tea"], "polling finds it anyway");
    pending.announce();
    soon("the hint", hint.wait()).await;
}

/// Commits in a transaction, reports it, and ends it when it is told to.
pub(crate) async fn stranger(part: &Part) {
    let store = PostgresStore::open(part.argument(0)).await.unwrap();
    let (url, _) = part.argument(0).split_once('?').unwrap();
    let (client, connection) = tidelock_store_postgres::tokio_postgres::connect(
        url,
        tidelock_store_postgres::tokio_postgres::NoTls,
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let mut client = client;
    for _ in 0..part.number(2) {
        let mut sql = client.transaction().await.unwrap();
        let insert = format!("INSERT INTO {}_sales VALUES ('tea')", part.argument(1));
        sql.batch_execute(&insert).await.unwrap();
        let pending = store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap();
        if part.number(2) == 1 {
            say("called");
            order();
        }
        sql.commit().await.unwrap();
        pending.announce();
    }
    say("committed");
}

fn start_stranger(shop: &Shop, times: u64) -> Worker {
    let times = times.to_string();
    Worker::start("stranger", &[&shop.url(), &shop.ground.schema.as_str(), &times])
}

/// COMMIT-8. Schedule 10, with the caller's own COMMIT.
async fn a_process_killed_between_the_call_and_its_commit_leaves_nothing() {
    let shop = Shop::new().await;
    let worker = start_stranger(&shop, 1);
    worker.hear("called");
    worker.kill();
    // The server notices, lets go of the row, and the feed goes on.
    committed(&shop.store, append("sales", "milk")).await;
    let milk = "SELECT count(*) = 0 FROM tidelock.tickets";
    shop.plain.until("its ticket is gone", milk).await;
    assert_eq!(everything(&shop.store).await, ["milk"]);
    assert_eq!(shop.found().await, (0, 1));
}

/// COMMIT-8: between its statements, and after them.
async fn a_connection_that_is_terminated_leaves_nothing() {
    let shop = Shop::new().await;
    for before in [true, false] {
        let mut client = shop.ground.stranger().await;
        let session: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let kill = format!("SELECT pg_terminate_backend({session})");
        let mut sql = client.transaction().await.unwrap();
        sell(&sql, &shop).await;
        if before {
            shop.plain.run(&kill).await;
            let lost = shop.store.commit_in(&mut sql, &append("sales", "tea")).await.unwrap_err();
            assert_eq!(lost.advice(), RetryAdvice::Later, "nothing has happened: {lost}");
        } else {
            commit_in(&shop.store, &mut sql, &append("sales", "tea")).await.announce();
            shop.plain.run(&kill).await;
        }
        sql.commit().await.unwrap_err();
        assert_eq!(shop.found().await, (0, 0));
    }
    committed(&shop.store, append("sales", "milk")).await;
    assert_eq!(everything(&shop.store).await, ["milk"]);
}

/// LOG-7. Two processes, each with transactions of its own, and a third that commits normally.
async fn two_processes_append_in_turn() {
    let shop = Shop::new().await;
    let workers = [start_stranger(&shop, 20), start_stranger(&shop, 20)];
    for _ in 0..20 {
        committed(&shop.store, append("sales", "tea")).await;
    }
    for worker in workers {
        worker.hear("committed");
        worker.finish();
    }
    assert_eq!(shop.found().await, (40, 60));
    let events = feed_after(&shop.store, Position::START).await;
    let versions: Vec<u64> = events.iter().map(|event| event.version.get()).collect();
    assert_eq!(versions, (1..=60).collect::<Vec<_>>(), "in the order of the stream");
}
