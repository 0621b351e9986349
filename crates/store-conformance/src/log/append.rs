//! Appends: what they write, and which of several concurrent ones succeed.

use std::time::Duration;

use tidelock_store::{
    Append, Appended, Commit, CommitOutcome, EventId, EventType, ExpectedVersion, NewEvent, Part,
    StoreErrorKind, StoreExt, StoredEvent, StreamState, ViolationKind, ViolationReason,
};

use crate::case::{World, cases};
use crate::sample::{
    at_once, commit, event, events, exact, failed, json, refused_whole, stream, version, violation,
};

cases! { "log::append":
    "LOG-2" versions_count_from_1_without_a_gap,
    "LOG-2" each_stream_counts_for_itself,
    "LOG-2 LOG-7" one_commit_appends_to_several_streams_in_its_order,
    "LOG-4" an_event_is_kept_to_the_letter,
    "LOG-4" events_of_one_commit_may_be_alike_but_for_their_ids,
    "LOG-4 TIME-1" an_event_is_recorded_at_the_stores_time,
    "LOG-4" later_writes_do_not_change_an_event,
    "LOG-1 LOG-3" of_two_creators_one_wins,
    "LOG-1 LOG-3" of_two_writers_at_one_version_one_wins,
    "LOG-1" a_conflict_tells_the_version_to_retry_at,
    "LOG-3 COMMIT-1" appends_to_two_streams_in_opposite_order_both_land,
    "LOG-5" an_event_id_that_comes_twice_in_one_append_is_refused,
    "LOG-5" an_event_id_that_comes_in_two_appends_of_one_commit_is_refused,
}

async fn versions_count_from_1_without_a_gap(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    for (count, last) in [(1, 1), (3, 4), (2, 6)] {
        let done =
            commit(store, Commit::new().append(&name, ExpectedVersion::Any, events(count))).await;
        assert_eq!(done.appends[0].version, version(last));
        assert!(!done.appends[0].replayed);
    }
    let found = store.read_whole_stream(&name).await.unwrap();
    assert_eq!(found.iter().map(|e| e.version.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

async fn each_stream_counts_for_itself(world: World) {
    let store = &*world.store;
    commit(store, Commit::new().append(&stream("a"), ExpectedVersion::Any, events(3))).await;
    let done =
        commit(store, Commit::new().append(&stream("b"), ExpectedVersion::NoStream, events(1)))
            .await;
    assert_eq!(done.appends[0].version, version(1));
}

async fn one_commit_appends_to_several_streams_in_its_order(world: World) {
    let store = &*world.store;
    let (a, b) = (stream("a"), stream("b"));
    commit(store, Commit::new().append(&a, ExpectedVersion::NoStream, events(1))).await;

    let both = Commit::new().append(&b, ExpectedVersion::NoStream, events(2)).append(
        &a,
        exact(1),
        events(3),
    );
    let done = commit(store, both).await;

    let (in_b, in_a) =
        (store.read_whole_stream(&b).await.unwrap(), store.read_whole_stream(&a).await.unwrap());
    let appended = |events: &[StoredEvent]| Appended {
        stream: events[0].stream.clone(),
        version: events.last().unwrap().version,
        positions: Some((events[0].position, events.last().unwrap().position)),
        replayed: false,
    };
    assert_eq!(done.appends, [appended(&in_b), appended(&in_a[1..])]);
    let positions: Vec<_> =
        in_a[..1].iter().chain(&in_b).chain(&in_a[1..]).map(|e| e.position).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
}

async fn an_event_is_kept_to_the_letter(world: World) {
    let (store, name) = (&*world.store, stream("Bestellung ä/7 🦀 %_'\"\\"));
    let payload = json(
        "{ \"b\": 1.50, \"a\": [ ],\n \"ü\": \"\\u00fc \\\" 🦀\", \"big\": 12345678901234567890 }",
    );
    let new = NewEvent::new(EventType::new("Größe.geändert v1").unwrap(), payload)
        .with_id(EventId::from_bytes([7; 16]))
        .with_metadata(json("{ \"who\" : \"anna\" }"));
    let done =
        commit(store, Commit::new().append(&name, ExpectedVersion::NoStream, [new.clone()])).await;

    let kept = StoredEvent {
        id: new.id,
        stream: name.clone(),
        version: version(1),
        position: done.appends[0].positions.unwrap().0,
        event_type: new.event_type,
        payload: new.payload,
        metadata: new.metadata,
        recorded_at: done.at,
    };
    assert_eq!(world.another().await.read_whole_stream(&name).await.unwrap(), [kept]);
}

async fn events_of_one_commit_may_be_alike_but_for_their_ids(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    let done =
        commit(store, Commit::new().append(&name, ExpectedVersion::NoStream, [event(1), event(1)]))
            .await;
    assert_eq!(done.appends[0].version, version(2));
    assert_eq!(store.read_whole_stream(&name).await.unwrap().len(), 2);
}

async fn an_event_is_recorded_at_the_stores_time(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    let first =
        commit(store, Commit::new().append(&name, ExpectedVersion::Any, events(2))).await.at;
    world.advance(Duration::from_secs(90)).await;
    let second =
        commit(store, Commit::new().append(&name, ExpectedVersion::Any, events(1))).await.at;

    assert!(second >= first.plus(Duration::from_secs(90)));
    let times: Vec<_> =
        store.read_whole_stream(&name).await.unwrap().iter().map(|e| e.recorded_at).collect();
    assert_eq!(times, [first, first, second]);
}

async fn later_writes_do_not_change_an_event(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    commit(store, Commit::new().append(&name, ExpectedVersion::Any, events(2))).await;
    let before = store.read_whole_stream(&name).await.unwrap();

    world.advance(Duration::from_secs(1)).await;
    commit(store, Commit::new().append(&name, exact(2), events(1))).await;
    commit(store, Commit::new().with_append(Append::closing(&name, exact(3)))).await;

    assert_eq!(store.read_whole_stream(&name).await.unwrap()[..2], before);
}

/// Schedule 82.
async fn of_two_creators_one_wins(world: World) {
    let name = stream("order-1");
    let create = |number| Commit::new().append(&name, ExpectedVersion::NoStream, [event(number)]);
    let outcomes = at_once(&world, create(1), create(2)).await;
    assert_one_won(&world, outcomes, ExpectedVersion::NoStream, 1, ViolationKind::Taken).await;
}

/// Schedule 5.
async fn of_two_writers_at_one_version_one_wins(world: World) {
    let name = stream("order-1");
    commit(&*world.store, Commit::new().append(&name, ExpectedVersion::NoStream, events(3))).await;
    let write = |number| Commit::new().append(&name, exact(3), [event(number)]);
    let outcomes = at_once(&world, write(1), write(2)).await;
    assert_one_won(&world, outcomes, exact(3), 4, ViolationKind::Moved).await;
}

async fn assert_one_won(
    world: &World,
    outcomes: [CommitOutcome; 2],
    expected: ExpectedVersion,
    now_at: u64,
    kind: ViolationKind,
) {
    let name = stream("order-1");
    let (won, lost): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!((won.len(), lost.len()), (1, 1));
    let found = StreamState::Open(version(now_at));
    let reason = ViolationReason::Stream { stream: name.clone(), expected, found };
    assert_eq!(reason.kind(), kind);
    assert_eq!(lost, [CommitOutcome::Conflict(violation(Part::Append(0), reason))]);
    assert_eq!(world.store.read_whole_stream(&name).await.unwrap().len() as u64, now_at);
}

async fn a_conflict_tells_the_version_to_retry_at(world: World) {
    let (store, name) = (&*world.store, stream("s"));
    commit(store, Commit::new().append(&name, ExpectedVersion::Any, events(4))).await;
    let stale = Commit::new().append(&name, exact(2), [event(9)]);
    let conflict = refused_whole(store, stale).await;
    let ViolationReason::Stream { found: StreamState::Open(found), .. } = conflict.first().reason
    else {
        panic!("{conflict}");
    };
    let retried = Commit::new().append(&name, ExpectedVersion::Exact(found), [event(9)]);
    assert_eq!(commit(store, retried).await.appends[0].version, version(5));
}

/// Schedule 13.
async fn appends_to_two_streams_in_opposite_order_both_land(world: World) {
    let (a, b) = (stream("a"), stream("b"));
    let both = |one, other| {
        Commit::new().append(one, ExpectedVersion::Any, [event(1)]).append(
            other,
            ExpectedVersion::Any,
            [event(2)],
        )
    };
    for _ in 0..20 {
        for outcome in at_once(&world, both(&a, &b), both(&b, &a)).await {
            outcome.committed().expect("neither is the victim of the other");
        }
    }
    for name in [&a, &b] {
        let versions: Vec<_> = world
            .store
            .read_whole_stream(name)
            .await
            .unwrap()
            .iter()
            .map(|e| e.version.get())
            .collect();
        assert_eq!(versions, (1..=40).collect::<Vec<_>>());
    }
}

async fn an_event_id_that_comes_twice_in_one_append_is_refused(world: World) {
    let (name, once) = (stream("s"), event(1));
    let twice =
        Commit::new().append(&name, ExpectedVersion::Any, [once.clone(), event(2), once.clone()]);
    let error = failed(&*world.store, twice).await;
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains(&once.id.to_string()), "{error}");
}

async fn an_event_id_that_comes_in_two_appends_of_one_commit_is_refused(world: World) {
    let once = event(1);
    let twice = Commit::new().append(&stream("a"), ExpectedVersion::Any, [once.clone()]).append(
        &stream("b"),
        ExpectedVersion::Any,
        [once],
    );
    let error = failed(&*world.store, twice).await;
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
}
