//! Judgement: every part of a commit is judged against the state before it.

use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Bounds, Commit, CommitOutcome, Committed, ExpectedRevision, ExpectedVersion,
    Part, RecordWrite, SettleKind, Settlement, Slot, Store, StoreExt, StreamState, ViolationKind,
    ViolationReason, Wake, When,
};

use crate::case::{World, cases};
use crate::items::item_now;
use crate::log::expect::Given as GivenStream;
use crate::records::expect::Given as GivenRecord;
use crate::sample::{
    at_once, commit, event, events, everything, exact, item, key, lease, lease_one, mark,
    refused_whole, revision, stream, value, version, violation, wake,
};

cases! { "commit::judgement":
    "COMMIT-3 LOG-1" a_guard_sees_a_stream_as_an_append_would_closed_or_not,
    "COMMIT-3 REC-1 REC-5" a_guard_sees_a_record_as_a_write_would,
    "COMMIT-3" a_commit_of_guards_writes_nothing,
    "COMMIT-3" a_guard_sees_the_stream_before_the_append_of_its_commit,
    "COMMIT-3" a_guard_sees_the_record_before_the_write_of_its_commit,
    "COMMIT-3" a_guard_sees_the_stream_before_it_is_closed_and_trimmed,
    "COMMIT-3" guards_of_one_thing_are_judged_one_by_one,
    "COMMIT-3 COMMIT-1" of_two_commits_that_guard_what_the_other_writes_one_wins,
    "COMMIT-3 LEASE-5" a_fence_holds_though_its_commit_settles_the_lease,
    "COMMIT-3 LEASE-3" a_wake_beside_the_settlement_of_its_item_is_not_lost,
    "LEASE-3" the_furthest_of_two_wakes_in_one_commit_counts,
    "LEASE-3 COMMIT-1" a_wake_in_a_refused_commit_has_no_effect,
    "COMMIT-1 TIME-1" all_of_a_commit_happens_at_one_moment,
}

/// Commits a guard alone: it holds, or it is refused for this reason.
async fn judge(store: &dyn Store, guard: Commit, refusal: Option<ViolationReason>) {
    match refusal {
        None => drop(commit(store, guard).await),
        Some(reason) => {
            assert_eq!(refused_whole(store, guard).await, violation(Part::Guard(0), reason));
        }
    }
}

async fn a_guard_sees_a_stream_as_an_append_would_closed_or_not(world: World) {
    use GivenStream::{Closed, Nothing, Open, Reopened, Trimmed};
    let store = &*world.store;
    for given in [Nothing, Open, Closed, Trimmed, Reopened] {
        let (name, found) = (stream(&format!("{given:?}")), given.state());
        given.make(store, &name).await;
        let table = [
            (ExpectedVersion::Any, true),
            (ExpectedVersion::NoStream, given == Nothing),
            (ExpectedVersion::Exists, given != Nothing),
            (exact(1), false),
            (exact(2), given != Nothing),
            (exact(3), false),
        ];
        for (expected, holds) in table {
            let reason = ViolationReason::Stream { stream: name.clone(), expected, found };
            let guard = Commit::new().guard_stream(&name, expected);
            judge(store, guard, (!holds).then_some(reason)).await;
        }
    }
}

async fn a_guard_sees_a_record_as_a_write_would(world: World) {
    use GivenRecord::{Deleted, Expired, Live, Nothing};
    for given in [Nothing, Live, Deleted, Expired] {
        let key = key(&format!("{given:?}"));
        given.make(&world, &key).await;
        let table = [
            (ExpectedRevision::Any, true),
            (ExpectedRevision::Absent, given != Live),
            (ExpectedRevision::Exists, given == Live),
            (ExpectedRevision::Revision(revision(1)), false),
            (ExpectedRevision::Revision(revision(2)), given == Live),
            (ExpectedRevision::Revision(revision(3)), false),
        ];
        for (expected, holds) in table {
            let reason =
                ViolationReason::Record { key: key.clone(), expected, found: given.slot(&key) };
            let guard = Commit::new().guard_record(&key, expected);
            judge(&*world.store, guard, (!holds).then_some(reason)).await;
        }
    }
}

async fn a_commit_of_guards_writes_nothing(world: World) {
    let store = &*world.store;
    let before = everything(store).await;
    let guards = Commit::new()
        .guard_stream(&stream("s"), ExpectedVersion::NoStream)
        .guard_record(&key("k"), ExpectedRevision::Absent);
    let done = commit(store, guards).await;
    assert_eq!(done, Committed { at: done.at, appends: vec![], writes: vec![] });
    assert_eq!(everything(store).await, before);
    assert_eq!(store.get_one(&key("k")).await.unwrap(), Slot::Absent);
}

async fn a_guard_sees_the_stream_before_the_append_of_its_commit(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    let create = Commit::new().append(&name, ExpectedVersion::NoStream, events(2));
    commit(store, create.guard_stream(&name, ExpectedVersion::NoStream)).await;

    let more = || Commit::new().append(&name, exact(2), events(1));
    let conflict = refused_whole(store, more().guard_stream(&name, exact(3))).await;
    let found = StreamState::Open(version(2));
    let reason = ViolationReason::Stream { stream: name.clone(), expected: exact(3), found };
    assert_eq!(conflict, violation(Part::Guard(0), reason));
    commit(store, more().guard_stream(&name, exact(2))).await;
}

async fn a_guard_sees_the_record_before_the_write_of_its_commit(world: World) {
    let (store, key) = (&*world.store, key("k"));
    let put = |expected| Commit::new().write(RecordWrite::put(&key, expected, value(1)));
    commit(store, put(ExpectedRevision::Absent).guard_record(&key, ExpectedRevision::Absent)).await;

    let expected = ExpectedRevision::Revision(revision(2));
    let found = store.get_one(&key).await.unwrap();
    let conflict =
        refused_whole(store, put(ExpectedRevision::Any).guard_record(&key, expected)).await;
    assert_eq!(
        conflict,
        violation(Part::Guard(0), ViolationReason::Record { key: key.clone(), expected, found })
    );
    let delete = Commit::new().write(RecordWrite::delete(&key, ExpectedRevision::Any));
    commit(store, delete.guard_record(&key, ExpectedRevision::Exists)).await;
}

async fn a_guard_sees_the_stream_before_it_is_closed_and_trimmed(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    commit(store, Commit::new().append(&name, ExpectedVersion::NoStream, events(2))).await;
    let books = Commit::new()
        .with_append(Append::new(&name, exact(2), [event(3)]).and_close())
        .trim(&name, version(2), AfterTrim::Reopen)
        .guard_stream(&name, exact(2));
    commit(store, books).await;
    let left: Vec<_> =
        store.read_whole_stream(&name).await.unwrap().iter().map(|e| e.version.get()).collect();
    assert_eq!(left, [3]);
}

async fn guards_of_one_thing_are_judged_one_by_one(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    let guards = Commit::new()
        .guard_stream(&name, ExpectedVersion::NoStream)
        .guard_stream(&name, ExpectedVersion::Exists)
        .guard_stream(&name, ExpectedVersion::Any);
    let reason = ViolationReason::Stream {
        stream: name.clone(),
        expected: ExpectedVersion::Exists,
        found: StreamState::Absent,
    };
    assert_eq!(reason.kind(), ViolationKind::Gone);
    assert_eq!(refused_whole(store, guards).await, violation(Part::Guard(1), reason));
}

async fn of_two_commits_that_guard_what_the_other_writes_one_wins(world: World) {
    let (a, b) = (key("a"), key("b"));
    let on_call = |mine, others| {
        Commit::new()
            .write(RecordWrite::put(mine, ExpectedRevision::Absent, value(1)))
            .guard_record(others, ExpectedRevision::Absent)
    };
    let outcomes = at_once(&world, on_call(&a, &b), on_call(&b, &a)).await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(CommitOutcome::conflict).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].first().part, Part::Guard(0));
    assert_eq!(everything(&*world.store).await.records.len(), 1);
}

async fn a_fence_holds_though_its_commit_settles_the_lease(world: World) {
    let store = &*world.store;
    wake(store, "i", 1).await;
    let token = lease_one(store, "anna").await.token();
    let last = Commit::new()
        .append(&stream("s"), ExpectedVersion::NoStream, events(1))
        .settle(Settlement::ack(token.clone(), mark(1)))
        .fenced_by(token.clone());
    commit(store, last).await;
    let conflict = refused_whole(store, Commit::new().fenced_by(token)).await;
    assert!(conflict.has(ViolationKind::LeaseLost));
}

async fn a_wake_beside_the_settlement_of_its_item_is_not_lost(world: World) {
    let store = &*world.store;
    wake(store, "i", 1).await;
    let token = lease_one(store, "anna").await.token();
    let both = Commit::new()
        .wake(Wake::to_mark(item("i"), mark(2)))
        .settle(Settlement::ack(token, mark(1)));
    commit(store, both).await;

    let found = item_now(store, "i").await;
    assert_eq!((found.settled, found.at, found.mark), (Some(SettleKind::Ack), mark(1), mark(2)));
    let again = lease_one(store, "bert").await;
    assert_eq!((again.at, again.mark, again.attempts), (mark(1), mark(2), 1));
}

async fn the_furthest_of_two_wakes_in_one_commit_counts(world: World) {
    let store = &*world.store;
    let to = |number| Wake::to_mark(item("i"), mark(number));
    commit(store, Commit::new().wake(to(5)).wake(to(3))).await;
    let leased = lease(store, "anna", 9).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].mark, mark(5));
}

async fn a_wake_in_a_refused_commit_has_no_effect(world: World) {
    let store = &*world.store;
    let refused = Commit::new().wake(Wake::to_mark(item("i"), mark(1))).write(RecordWrite::add(
        &key("n"),
        2,
        Bounds::at_most(1),
    ));
    refused_whole(store, refused).await;
    assert!(lease(store, "anna", 1).await.is_empty());
}

const A_MINUTE: Duration = Duration::from_secs(60);

async fn all_of_a_commit_happens_at_one_moment(world: World) {
    let store = &*world.store;
    let when = When::In(A_MINUTE);
    let all = Commit::new()
        .append(&stream("a"), ExpectedVersion::NoStream, events(2))
        .append(&stream("b"), ExpectedVersion::NoStream, events(1))
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Absent, value(1)).expiring(when))
        .wake(Wake::at(item("i"), when));
    let at = commit(store, all).await.at;
    let then = Some(at.plus(A_MINUTE));

    let after = everything(store).await;
    assert!(after.events.iter().all(|event| event.recorded_at == at));
    assert_eq!((after.records[0].expires_at, after.items[0].due), (then, then));
}
