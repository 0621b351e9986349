//! Closing, trimming and reopening streams.

use tidelock_store::{
    AfterTrim, Append, Appended, Commit, ExpectedVersion, Part, Store, StoreExt, StreamQuery,
    StreamState, Version, ViolationKind, ViolationReason,
};

use crate::case::{World, cases};
use crate::sample::{
    commit, event, events, everything, exact, refused_whole, stream, version, violation,
};
use AfterTrim::{Reopen, StayClosed};

cases! { "log::trim":
    "LOG-8" a_stream_is_closed_behind_its_last_events,
    "LOG-8" a_stream_is_closed_without_events,
    "LOG-8" a_stream_is_closed_only_at_the_version_expected,
    "LOG-8" a_stream_that_does_not_exist_cannot_be_closed,
    "LOG-8" a_closed_stream_cannot_be_closed_again,
    "LOG-8" a_stream_can_be_made_and_closed_at_once,
    "LOG-9" an_open_stream_cannot_be_trimmed,
    "LOG-9" a_stream_that_does_not_exist_cannot_be_trimmed,
    "LOG-9" a_stream_cannot_be_trimmed_beyond_its_version,
    "LOG-9" a_trim_takes_exactly_the_events_up_to_its_version,
    "LOG-9" a_trim_repeated_or_shorter_changes_nothing,
    "LOG-8 LOG-9" a_trim_that_stays_closed_stays_closed,
    "LOG-2 LOG-8" versions_go_on_after_a_trim_that_reopens,
    "LOG-9 COMMIT-3" one_commit_closes_trims_and_reopens,
    "LOG-8 LOG-9" one_commit_closes_and_trims,
    "LOG-2 LOG-9" one_commit_restarts_a_closed_stream,
    "LOG-1 LOG-8" a_restart_is_judged_by_the_version_before_it,
    "LOG-8" a_restart_can_close_the_stream_behind_it,
    "LOG-8" a_trim_that_stays_closed_lets_no_append_in,
    "LOG-9 COMMIT-3" a_trim_cannot_reach_events_of_its_own_commit,
}

async fn given(store: &dyn Store, count: u64) {
    commit(store, Commit::new().append(&stream("s"), ExpectedVersion::NoStream, events(count)))
        .await;
}

async fn given_closed(store: &dyn Store, count: u64) {
    let append = Append::new(&stream("s"), ExpectedVersion::NoStream, events(count)).and_close();
    commit(store, Commit::new().with_append(append)).await;
}

fn close_at(number: u64) -> Commit {
    Commit::new().with_append(Append::closing(&stream("s"), exact(number)))
}

fn trim(through: u64, then: AfterTrim) -> Commit {
    Commit::new().trim(&stream("s"), version(through), then)
}

/// The remaining versions, and the state.
async fn left(store: &dyn Store) -> (Vec<u64>, StreamState) {
    let page = store.read_stream(StreamQuery::forward(&stream("s"))).await.unwrap();
    let versions: Vec<_> = page.events.iter().map(|e| e.version.get()).collect();
    assert_eq!(page.first.map(Version::get), versions.first().copied());
    (versions, page.state)
}

fn open(number: u64) -> StreamState {
    StreamState::Open(version(number))
}

fn closed(number: u64) -> StreamState {
    StreamState::Closed(version(number))
}

fn is_closed(at: u64) -> ViolationReason {
    ViolationReason::Closed { stream: stream("s"), version: version(at) }
}

fn moved(expected: ExpectedVersion, found: StreamState) -> ViolationReason {
    ViolationReason::Stream { stream: stream("s"), expected, found }
}

fn untrimmable(through: u64, found: StreamState) -> ViolationReason {
    let reason =
        ViolationReason::Untrimmable { stream: stream("s"), through: version(through), found };
    let kind = match found {
        StreamState::Absent => ViolationKind::Gone,
        StreamState::Open(_) => ViolationKind::Closed,
        StreamState::Closed(_) => ViolationKind::Exceeded,
    };
    assert_eq!(reason.kind(), kind);
    reason
}

async fn a_stream_is_closed_behind_its_last_events(world: World) {
    let store = &*world.store;
    given(store, 1).await;
    let last = Append::new(&stream("s"), exact(1), events(2)).and_close();
    let done = commit(store, Commit::new().with_append(last)).await;
    assert_eq!(done.appends[0].version, version(3));
    assert_eq!(left(store).await, (vec![1, 2, 3], closed(3)));
}

async fn a_stream_is_closed_without_events(world: World) {
    let store = &*world.store;
    given(store, 2).await;
    let done = commit(store, close_at(2)).await;
    let tombstone =
        Appended { stream: stream("s"), version: version(2), positions: None, replayed: false };
    assert_eq!(done.appends, [tombstone]);
    assert_eq!(left(store).await, (vec![1, 2], closed(2)));
    assert_eq!(everything(store).await.events.len(), 2, "a tombstone is no event");
}

async fn a_stream_is_closed_only_at_the_version_expected(world: World) {
    let store = &*world.store;
    given(store, 2).await;
    let conflict = refused_whole(store, close_at(1)).await;
    assert_eq!(conflict, violation(Part::Append(0), moved(exact(1), open(2))));
}

async fn a_stream_that_does_not_exist_cannot_be_closed(world: World) {
    for expected in
        [ExpectedVersion::Any, ExpectedVersion::NoStream, ExpectedVersion::Exists, exact(1)]
    {
        let close = Commit::new().with_append(Append::closing(&stream("s"), expected));
        let conflict = refused_whole(&*world.store, close).await;
        // Where anything would do, or no stream, a stream to close is still needed.
        let expected = if matches!(expected, ExpectedVersion::Exact(_)) {
            expected
        } else {
            ExpectedVersion::Exists
        };
        assert_eq!(conflict, violation(Part::Append(0), moved(expected, StreamState::Absent)));
        assert!(conflict.has(ViolationKind::Gone));
    }
}

async fn a_closed_stream_cannot_be_closed_again(world: World) {
    let store = &*world.store;
    given_closed(store, 2).await;
    assert_eq!(refused_whole(store, close_at(2)).await, violation(Part::Append(0), is_closed(2)));
}

async fn a_stream_can_be_made_and_closed_at_once(world: World) {
    let store = &*world.store;
    given_closed(store, 2).await;
    assert_eq!(left(store).await, (vec![1, 2], closed(2)));
    let more = Commit::new().append(&stream("s"), ExpectedVersion::Any, events(1));
    assert_eq!(refused_whole(store, more).await, violation(Part::Append(0), is_closed(2)));
}

async fn an_open_stream_cannot_be_trimmed(world: World) {
    let store = &*world.store;
    given(store, 2).await;
    for then in [StayClosed, Reopen] {
        let conflict = refused_whole(store, trim(1, then)).await;
        assert_eq!(conflict, violation(Part::Trim(0), untrimmable(1, open(2))));
    }
}

async fn a_stream_that_does_not_exist_cannot_be_trimmed(world: World) {
    let conflict = refused_whole(&*world.store, trim(1, Reopen)).await;
    assert_eq!(conflict, violation(Part::Trim(0), untrimmable(1, StreamState::Absent)));
}

async fn a_stream_cannot_be_trimmed_beyond_its_version(world: World) {
    let store = &*world.store;
    given_closed(store, 2).await;
    for through in [3, i64::MAX as u64] {
        let conflict = refused_whole(store, trim(through, Reopen)).await;
        assert_eq!(conflict, violation(Part::Trim(0), untrimmable(through, closed(2))));
    }
}

async fn a_trim_takes_exactly_the_events_up_to_its_version(world: World) {
    let store = &*world.store;
    given_closed(store, 4).await;
    let before = store.read_whole_stream(&stream("s")).await.unwrap();
    for through in 1..=3 {
        commit(store, trim(through as u64, StayClosed)).await;
        assert_eq!(store.read_whole_stream(&stream("s")).await.unwrap(), before[through..]);
    }
    commit(store, trim(4, StayClosed)).await;
    assert_eq!(left(store).await, (vec![], closed(4)));
}

async fn a_trim_repeated_or_shorter_changes_nothing(world: World) {
    let store = &*world.store;
    given_closed(store, 4).await;
    commit(store, trim(3, StayClosed)).await;
    let before = everything(store).await;
    for through in [3, 2, 1] {
        commit(store, trim(through, StayClosed)).await;
        assert_eq!(everything(store).await, before);
    }
}

async fn a_trim_that_stays_closed_stays_closed(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    commit(store, trim(2, StayClosed)).await;
    assert_eq!(left(store).await, (vec![3], closed(3)));
    let more = Commit::new().append(&stream("s"), exact(3), events(1));
    assert_eq!(refused_whole(store, more).await, violation(Part::Append(0), is_closed(3)));
}

async fn versions_go_on_after_a_trim_that_reopens(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    commit(store, trim(3, Reopen)).await;
    assert_eq!(left(store).await, (vec![], open(3)));
    let done = commit(store, Commit::new().append(&stream("s"), exact(3), events(2))).await;
    assert_eq!(done.appends[0].version, version(5));
    assert_eq!(left(store).await, (vec![4, 5], open(5)));
    assert_eq!(
        refused_whole(store, trim(4, Reopen)).await,
        violation(Part::Trim(0), untrimmable(4, open(5))),
        "it is open again"
    );
}

async fn one_commit_closes_trims_and_reopens(world: World) {
    let store = &*world.store;
    given(store, 4).await;
    commit(store, close_at(4).trim(&stream("s"), version(3), Reopen)).await;
    assert_eq!(left(store).await, (vec![4], open(4)));

    let summary = Append::new(&stream("s"), exact(4), [event(5)]).and_close();
    commit(store, Commit::new().with_append(summary).trim(&stream("s"), version(4), Reopen)).await;
    assert_eq!(
        left(store).await,
        (vec![5], open(5)),
        "a summary takes the place of what it sums up"
    );
}

async fn one_commit_closes_and_trims(world: World) {
    let store = &*world.store;
    given(store, 4).await;
    commit(store, close_at(4).trim(&stream("s"), version(3), StayClosed)).await;
    assert_eq!(left(store).await, (vec![4], closed(4)));
}

async fn one_commit_restarts_a_closed_stream(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    let restart = trim(3, Reopen).append(&stream("s"), exact(3), events(2));
    let done = commit(store, restart).await;
    assert_eq!(done.appends[0].version, version(5));
    assert_eq!(left(store).await, (vec![4, 5], open(5)));
}

async fn a_restart_is_judged_by_the_version_before_it(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    for (expected, kind) in
        [(ExpectedVersion::NoStream, ViolationKind::Taken), (exact(2), ViolationKind::Moved)]
    {
        let restart = trim(3, Reopen).append(&stream("s"), expected, events(1));
        let conflict = refused_whole(store, restart).await;
        assert_eq!(conflict, violation(Part::Append(0), moved(expected, closed(3))));
        assert!(conflict.has(kind));
    }
}

async fn a_restart_can_close_the_stream_behind_it(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    let last = Append::new(&stream("s"), exact(3), events(1)).and_close();
    commit(store, trim(2, Reopen).with_append(last)).await;
    assert_eq!(left(store).await, (vec![3, 4], closed(4)));
}

async fn a_trim_that_stays_closed_lets_no_append_in(world: World) {
    let store = &*world.store;
    given_closed(store, 3).await;
    let both = trim(3, StayClosed).append(&stream("s"), exact(3), events(1));
    assert_eq!(refused_whole(store, both).await, violation(Part::Append(0), is_closed(3)));
}

async fn a_trim_cannot_reach_events_of_its_own_commit(world: World) {
    let store = &*world.store;
    given(store, 2).await;
    let last = Append::new(&stream("s"), exact(2), events(1)).and_close();
    let both = trim(3, StayClosed).with_append(last);
    assert_eq!(refused_whole(store, both).await, violation(Part::Trim(0), untrimmable(3, open(2))));
}
