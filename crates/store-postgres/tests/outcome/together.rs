//! Fast-path commits, and their answers on the fast path and on the general path.

use futures_util::future::join_all;
use tidelock_store::{
    Append, Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, MemoryStore,
    Position, RawJson, RecordKey, RecordWrite, RetryAdvice, Revision, Settlement, Store, StoreExt,
    Version, ViolationKind, When,
};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;
use tokio::task::JoinHandle;

use crate::ground::{
    Ground, accepted, append, committed, event, feed_after, item, lease, said, soon, stream, wake,
};

fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

fn put(name: &str, expected: ExpectedRevision) -> RecordWrite {
    RecordWrite::put(&key(name), expected, RawJson::new("new").unwrap())
}

fn at(revision: u64) -> ExpectedRevision {
    ExpectedRevision::Revision(Revision::new(revision).unwrap())
}

fn spawn(store: &PostgresStore, commit: Commit) -> JoinHandle<CommitOutcome> {
    let store = store.clone();
    tokio::spawn(async move { soon("a commit", store.commit(commit)).await.unwrap() })
}

/// The state before each of the commits below: a live record, a deleted one, and one that never
/// existed.
fn before() -> Vec<Commit> {
    let there =
        ["there-0", "there-1", "there-2", "there-3", "gone-0", "gone-1", "gone-2", "gone-3"];
    let made = there.map(|name| Commit::new().write(put(name, ExpectedRevision::Absent)));
    let gone = (0..4)
        .map(|nth| Commit::new().write(RecordWrite::delete(&key(&format!("gone-{nth}")), at(1))));
    made.into_iter().chain(gone).collect()
}

/// Pairs of writes of every kind, each pair to its own records.
fn pairs() -> Vec<Commit> {
    use ExpectedRevision::{Absent, Any, Exists};
    let delete = |name: &str, expected| RecordWrite::delete(&key(name), expected);
    let pairs = [
        (put("a-0", Absent), put("there-0", at(1))),
        (put("a-1", Absent), put("there-1", at(7))),
        (put("a-2", Exists), put("gone-0", at(2))),
        (put("a-3", at(1)), put("there-2", Absent)),
        (put("gone-1", Absent), delete("there-3", Any)),
        (put("gone-2", Exists), delete("a-4", Any)),
        (put("gone-3", Any), put("a-5", Any)),
        (
            put("a-6", Absent).expiring(When::In(std::time::Duration::from_secs(60))),
            delete("a-7", Exists),
        ),
    ];
    pairs.map(|(one, other)| Commit::new().write(one).write(other)).into()
}

/// COMMIT-1, COMMIT-2: made at the same moment and judged in one statement, each gets the answer
/// that it would have got alone, and a refused one has written nothing.
#[tokio::test]
async fn commits_that_write_records_together_are_judged_each_on_its_own() {
    let (store, model) = (Ground::shared().open().await, MemoryStore::new());
    for commit in before() {
        committed(&store, commit.clone()).await;
        accepted(model.commit(commit).await.unwrap());
    }
    let together = join_all(pairs().into_iter().map(|commit| store.commit(commit))).await;
    for (together, commit) in together.into_iter().zip(pairs()) {
        let alone = model.commit(commit.clone()).await.unwrap();
        match (together.unwrap().committed(), alone.committed()) {
            (Ok(one), Ok(other)) => assert_eq!(one.writes, other.writes, "{commit:?}"),
            (Err(one), Err(other)) => assert_eq!(kinds(&one), kinds(&other), "{commit:?}"),
            (one, other) => panic!("{commit:?}: {one:?}, and alone {other:?}"),
        }
    }
    let keys: Vec<RecordKey> =
        pairs().iter().flat_map(|commit| &commit.writes).map(|w| w.key.clone()).collect();
    let (ours, theirs) = (store.get(&keys).await.unwrap(), model.get(&keys).await.unwrap());
    for ((key, one), other) in keys.iter().zip(ours).zip(theirs) {
        assert_eq!(one.revision(), other.revision(), "{key:?}");
        assert_eq!(one.live().map(|r| &r.value), other.live().map(|r| &r.value), "{key:?}");
    }
}

/// COMMIT-1, LOG-1: the same for one event each, to existing streams.
#[tokio::test]
async fn next_events_of_many_streams_are_judged_each_on_its_own() {
    let ground = Ground::shared();
    let (store, model) = (ground.open().await, MemoryStore::new());
    let streams = ["a", "b", "c", "d", "e", "shut"];
    let first = streams.map(|name| append(name, "first"));
    let shut = Append::new(&stream("shut"), ExpectedVersion::Any, [event("last")]).and_close();
    let shut = Commit::new().with_append(shut);
    for commit in first.into_iter().chain([shut]) {
        committed(&store, commit.clone()).await;
        accepted(model.commit(commit).await.unwrap());
    }
    let exact = |version| ExpectedVersion::Exact(Version::new(version).unwrap());
    let next = [
        // The first goes alone, and the others share the next batch.
        ("a", exact(1)),
        ("e", exact(1)),
        ("shut", exact(2)),
        ("d", exact(7)),
        ("missing", ExpectedVersion::Exists),
        ("c", ExpectedVersion::Exists),
        ("b", exact(1)),
        ("nowhere", exact(3)),
    ];
    let next =
        next.map(|(name, expected)| Commit::new().append(&stream(name), expected, [event(name)]));
    let together = join_all(next.iter().map(|commit| store.commit(commit.clone()))).await;
    let feed = feed_after(&store, Position::START).await;
    for (together, commit) in together.into_iter().zip(next) {
        let alone = model.commit(commit.clone()).await.unwrap();
        let there = feed.iter().find(|there| there.id == commit.appends[0].events[0].id);
        match (together.unwrap().committed(), alone.committed()) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one.appends[0].version, other.appends[0].version, "{commit:?}");
                let there = there.expect("it was accepted");
                assert_eq!(
                    one.appends[0].positions,
                    Some((there.position, there.position)),
                    "{commit:?}"
                );
                assert_eq!(
                    (one.at, one.appends[0].version),
                    (there.recorded_at, there.version),
                    "{commit:?}"
                );
            }
            (Err(one), Err(other)) => assert_eq!((one, there), (other, None), "{commit:?}"),
            (one, other) => panic!("{commit:?}: {one:?}, and alone {other:?}"),
        }
    }
}

/// The positive control of the previous test: they are in fact sent in one batch.
#[tokio::test]
async fn next_events_of_many_streams_travel_together() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let streams = ["a", "b", "c"].map(stream);
    for expected in [ExpectedVersion::NoStream, ExpectedVersion::Exists] {
        let next =
            streams.iter().map(|stream| Commit::new().append(stream, expected, [event("next")]));
        for outcome in join_all(next.map(|commit| store.commit(commit))).await {
            accepted(outcome.unwrap());
        }
    }
    let sent = "SELECT count(*) FROM pg_stat_activity WHERE application_name = '@' AND query LIKE 'WITH moved %'";
    assert_eq!(ground.connect().await.one::<i64>(sent).await, 1, "they travelled apart");
}

/// The violations, with the revisions found.
fn kinds(conflict: &tidelock_store::Conflict) -> String {
    let violations = conflict.violations.iter().map(|violation| match &violation.reason {
        tidelock_store::ViolationReason::Record { key, expected, found } => {
            format!(
                "{:?} {key:?} {expected:?} {:?} {}",
                violation.part,
                found.revision(),
                found.live().is_some()
            )
        }
        other => format!("{other:?}"),
    });
    violations.collect::<Vec<_>>().join("; ")
}

/// COMMIT-2: the record was as expected when the server read it, and is not once its row is
/// unlocked.
#[tokio::test]
async fn a_record_that_changes_while_it_is_waited_for_refuses_the_write() {
    let ground = Ground::shared();
    let (store, holder, looker) =
        (ground.open().await, ground.connect().await, ground.connect().await);
    committed(&store, Commit::new().write(put("a", ExpectedRevision::Absent))).await;
    holder.run("BEGIN; UPDATE tidelock.records SET revision = 2 WHERE key = 'a'").await;
    let waiting = spawn(
        &store,
        Commit::new().write(put("a", at(1))).write(put("b", ExpectedRevision::Absent)),
    );
    looker.until_blocked(1).await;

    holder.run("COMMIT").await;
    let conflict = soon("the commit", waiting).await.unwrap().conflict().unwrap();
    assert_eq!(conflict.violations.len(), 1);
    assert!(
        looker
            .one::<bool>("SELECT NOT EXISTS (SELECT FROM tidelock.records WHERE key = 'b')")
            .await
    );
}

/// TIME-1: a commit that waited for a row must not judge by an earlier time.
#[tokio::test]
async fn a_record_that_runs_out_while_it_is_waited_for_refuses_the_write() {
    let ground = Ground::shared();
    let (store, holder, looker) =
        (ground.open().await, ground.connect().await, ground.connect().await);
    ground.own_calendar().await;
    let life = When::In(std::time::Duration::from_secs(60));
    committed(&store, Commit::new().write(put("a", ExpectedRevision::Absent).expiring(life))).await;
    holder.run("BEGIN; SELECT FROM tidelock.records WHERE key = 'a' FOR UPDATE").await;
    let waiting = spawn(&store, Commit::new().write(put("a", at(1))));
    looker.until_blocked(1).await;

    ground.let_pass(61).await;
    holder.run("COMMIT").await;
    assert!(soon("the commit", waiting).await.unwrap().conflict().is_some());
}

/// Schedule 13: each locks existing rows by key, and then creates missing ones; so a waiting commit
/// holds nothing that another wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_several_handles_that_cross_each_other_are_all_answered() {
    let ground = Ground::shared();
    let looker = ground.connect().await;
    let mut callers = Vec::new();
    for handle in 0..4 {
        let store = ground.open().await;
        callers.extend((0..4).map(|nth| tokio::spawn(cross(store.clone(), handle * 4 + nth))));
    }
    let mut won = 0;
    for caller in callers {
        won += soon("a caller", caller).await.unwrap();
    }
    let sum = "SELECT sum(revision)::bigint FROM tidelock.records WHERE key LIKE 'cross-%'";
    assert_eq!(looker.one::<i64>(sum).await, 2 * won);
}

/// Twenty times two of five records, in its own order; returns how often both were written.
async fn cross(store: PostgresStore, caller: usize) -> i64 {
    let mut won = 0;
    for round in 0..20 {
        let names =
            [caller + round, caller * 3 + round * 2 + 1].map(|n| format!("cross-{}", n % 5));
        if names[0] == names[1] {
            continue;
        }
        let mut commit = Commit::new();
        for (name, slot) in
            names.iter().zip(store.get(&names.each_ref().map(|name| key(name))).await.unwrap())
        {
            let expected =
                slot.revision().map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
            commit = commit.write(put(name, expected));
        }
        won +=
            i64::from(soon("a commit", store.commit(commit)).await.unwrap().conflict().is_none());
    }
    won
}

/// COMMIT-4, COMMIT-6: the server has committed, and its reply is lost.
#[tokio::test]
async fn a_write_under_an_id_whose_reply_was_lost_gives_its_first_result_when_sent_again() {
    let ground = Ground::shared();
    let proxy = Proxy::to(ground.port()).unwrap();
    let ground = ground.through(proxy.port());
    let (store, plain) = (ground.open().await, ground.connect().await);
    for (nth, expected) in [(1, ExpectedRevision::Absent), (2, at(1))] {
        let marked =
            RecordWrite::put(&key("a"), expected, RawJson::new(&format!("marked-{nth}")).unwrap());
        let commit = Commit::new()
            .with_id(CommitId::fresh())
            .write(marked)
            .write(put(&format!("beside-{nth}"), ExpectedRevision::Absent));
        // The next request on that connection is the commit, without a prepare before it.
        committed(&store, Commit::new().write(put("warm", ExpectedRevision::Any))).await;
        proxy.cut_after_request(format!("marked-{nth}").as_bytes());
        let error =
            soon("an answer", store.commit(commit.clone())).await.expect_err("the reply was lost");
        assert_eq!(error.advice(), RetryAdvice::Unknown, "{error}");
        let there =
            format!("SELECT EXISTS (SELECT FROM tidelock.records WHERE key = 'beside-{nth}')");
        plain.until("the server has committed", &there).await;
        let (one, other) =
            (committed(&store, commit.clone()).await, committed(&store, commit).await);
        assert_eq!(one, other);
        assert_eq!(one.writes[0].revision, Some(Revision::new(nth).unwrap()));
        let sql = "SELECT bool_and(committed_at > 1000000) FROM tidelock.commits";
        assert!(one.at.micros() > 1_000_000 && plain.one::<bool>(sql).await);
    }
}

/// LEASE-5: an append under a lost lease writes nothing and is refused; other commits of the batch
/// are not affected.
#[tokio::test]
async fn an_append_under_a_lost_lease_is_refused_and_others_of_its_batch_are_not() {
    let store = Ground::shared().open().await;
    for name in ["lost", "held"] {
        committed(&store, wake(name)).await;
    }
    let mut leases = lease(&store, "w", 2).await;
    leases.sort_by_key(|lease| lease.item.clone());
    let [held, lost] = &leases[..] else { panic!("two were to be leased") };
    assert_eq!((held.item.clone(), lost.item.clone()), (item("held"), item("lost")));
    committed(&store, Commit::new().settle(Settlement::release(lost.token()))).await;
    let under =
        |name: &str, lease: &tidelock_store::Lease| append(name, name).fenced_by(lease.token());
    let alone = accepted(store.commit(under("a", held)).await.unwrap());
    assert_eq!(alone.appends[0].version.get(), 1);

    let batch = [under("a", held), under("b", lost), append("c", "c"), under("d", held)];
    let outcomes = join_all(batch.into_iter().map(|commit| store.commit(commit))).await;
    let refused: Vec<bool> =
        outcomes.into_iter().map(|outcome| outcome.unwrap().conflict().is_some()).collect();
    assert_eq!(refused, [false, true, false, false]);
    let alone = store.commit(under("b", lost)).await.unwrap().conflict().unwrap();
    assert!(alone.has(ViolationKind::LeaseLost));
    assert!(store.read_whole_stream(&stream("b")).await.unwrap().is_empty());
    assert_eq!(said(&store.read_whole_stream(&stream("a")).await.unwrap()), ["a", "a"]);
}

/// LEASE-5: the lease was held when the append was sent, and is another worker's when its row is
/// unlocked.
#[tokio::test]
async fn an_append_whose_lease_is_taken_while_it_waits_is_refused() {
    let ground = Ground::shared();
    let (store, holder, looker) =
        (ground.open().await, ground.connect().await, ground.connect().await);
    committed(&store, wake("a")).await;
    committed(&store, append("s", "first")).await;
    let held = lease(&store, "w", 1).await.remove(0);
    holder
        .run("BEGIN; UPDATE tidelock.items SET fence = fence + 1, worker = 'other' WHERE key = 'a'")
        .await;
    let commit = Commit::new()
        .append(&stream("s"), ExpectedVersion::Any, [event("late")])
        .fenced_by(held.token());
    let waiting = spawn(&store, commit);
    looker.until_blocked(1).await;

    holder.run("COMMIT").await;
    let conflict = soon("the commit", waiting).await.unwrap().conflict().unwrap();
    assert!(conflict.has(ViolationKind::LeaseLost));
    assert_eq!(said(&store.read_whole_stream(&stream("s")).await.unwrap()), ["first"]);
}
