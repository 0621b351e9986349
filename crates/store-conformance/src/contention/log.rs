//! Races for the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidelock_store::{
    Appended, Commit, CommitId, CommitOutcome, Conflict, ExpectedVersion, FeedQuery, Part,
    Position, Store, StoreErrorKind, StoreExt, StoredEvent, StreamState, Version, Violation,
    ViolationReason,
};

use super::race;
use crate::case::{World, cases};
use crate::items::secs;
use crate::sample::{commit, event, events, exact, stream, version};

cases! { "contention::log":
    "LOG-3" of_16_creators_of_one_stream_one_wins,
    "LOG-3" of_64_creators_of_one_stream_one_wins,
    "LOG-3" of_64_appenders_at_one_version_one_wins,
    "LOG-2" appends_from_many_are_numbered_without_gaps,
    "LOG-5" a_racing_retry_of_one_append_has_one_effect,
    "LOG-5" an_event_id_raced_for_by_many_streams_goes_to_one,
    "COMMIT-4" racing_commits_under_one_id_have_one_effect_and_one_result,
    "COMMIT-1 LOG-2" commits_over_two_streams_in_opposite_order_all_land,
    "LOG-7" a_reader_at_the_tail_sees_every_event_once_and_in_order,
}

async fn of_16_creators_of_one_stream_one_wins(world: World) {
    one_creator_wins(world, 16).await;
}

async fn of_64_creators_of_one_stream_one_wins(world: World) {
    one_creator_wins(world, 64).await;
}

async fn one_creator_wins(world: World, racers: usize) {
    one_appender_wins(&world, racers, ExpectedVersion::NoStream).await;
    let events = world.store.read_whole_stream(&stream("s")).await.unwrap();
    assert_eq!(events.len(), 1);
}

async fn of_64_appenders_at_one_version_one_wins(world: World) {
    let three = Commit::new().append(&stream("s"), ExpectedVersion::NoStream, events(3));
    commit(&*world.store, three).await;
    one_appender_wins(&world, 64, exact(3)).await;
}

/// Of this many appenders of one event to "s", one is accepted, and all others get a conflict that
/// shows its event.
async fn one_appender_wins(world: &World, racers: usize, expected: ExpectedVersion) {
    let outcomes = race(world, racers, |racer, store| async move {
        store.append(&stream("s"), expected, vec![event(racer as u64)]).await.unwrap()
    });
    let (won, lost): (Vec<_>, Vec<_>) =
        outcomes.await.into_iter().partition(|o| matches!(o, CommitOutcome::Committed(_)));
    assert_eq!((won.len(), lost.len()), (1, racers - 1));
    let won = won.into_iter().find_map(|won| won.committed().ok()).expect("one has won");
    let found = StreamState::Open(won.appends[0].version);
    let reason = ViolationReason::Stream { stream: stream("s"), expected, found };
    let refusal = Conflict { violations: vec![Violation { part: Part::Append(0), reason }] };
    assert!(lost.iter().all(|lost| *lost == CommitOutcome::Conflict(refusal.clone())), "{lost:?}");
}

async fn appends_from_many_are_numbered_without_gaps(world: World) {
    let appended = race(&world, 16, |_, store| async move {
        let mut versions = Vec::new();
        for nth in 0..5 {
            let two =
                Commit::new().append(&stream("s"), ExpectedVersion::Any, [event(nth), event(nth)]);
            versions.push(commit(&*store, two).await.appends[0].version.get());
        }
        versions
    });
    let mut versions: Vec<u64> = appended.await.into_iter().flatten().collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=80).map(|nth| nth * 2).collect::<Vec<_>>());
    assert_contiguous(&world.store.read_whole_stream(&stream("s")).await.unwrap(), 160);
}

fn assert_contiguous(events: &[StoredEvent], count: u64) {
    let versions: Vec<u64> = events.iter().map(|event| event.version.get()).collect();
    assert_eq!(versions, (1..=count).collect::<Vec<_>>());
    assert!(events.is_sorted_by(|a, b| a.position < b.position));
}

async fn a_racing_retry_of_one_append_has_one_effect(world: World) {
    let same = events(3);
    let mut appended = race(&world, 16, |_, store| {
        let append = Commit::new().append(&stream("s"), ExpectedVersion::NoStream, same.clone());
        async move { commit(&*store, append).await.appends.remove(0) }
    })
    .await;
    appended.sort_by_key(|appended| appended.replayed);
    assert!(!appended[0].replayed);
    let replay = Appended { replayed: true, ..appended[0].clone() };
    assert!(appended[1..].iter().all(|appended| *appended == replay), "{appended:?}");
    assert_contiguous(&world.store.read_whole_stream(&stream("s")).await.unwrap(), 3);
}

async fn an_event_id_raced_for_by_many_streams_goes_to_one(world: World) {
    let one = event(1);
    let results = race(&world, 16, |racer, store| {
        let (to, one) = (stream(&format!("s-{racer}")), one.clone());
        async move { store.append(&to, ExpectedVersion::NoStream, vec![one]).await }
    });
    let (accepted, refused): (Vec<_>, Vec<_>) = results.await.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), refused.len()), (1, 15));
    let kinds = refused.into_iter().filter_map(Result::err).map(|error| error.kind());
    assert!(kinds.into_iter().all(|kind| kind == StoreErrorKind::IdempotencyMismatch));
    let page = world.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(page.events.len(), 1);
}

async fn racing_commits_under_one_id_have_one_effect_and_one_result(world: World) {
    let same = Commit::new()
        .append(&stream("s"), ExpectedVersion::Any, events(2))
        .with_id(CommitId::fresh());
    let results = race(&world, 16, |_, store| {
        let same = same.clone();
        async move { commit(&*store, same).await }
    })
    .await;
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert_contiguous(&world.store.read_whole_stream(&stream("s")).await.unwrap(), 2);
}

async fn commits_over_two_streams_in_opposite_order_all_land(world: World) {
    race(&world, 16, |racer, store| async move {
        let (one, other) = if racer % 2 == 0 { ("s", "t") } else { ("t", "s") };
        for nth in 0..5 {
            let both = Commit::new()
                .append(&stream(one), ExpectedVersion::Any, [event(nth)])
                .append(&stream(other), ExpectedVersion::Any, [event(nth)]);
            commit(&*store, both).await;
        }
    })
    .await;
    for name in ["s", "t"] {
        assert_contiguous(&world.store.read_whole_stream(&stream(name)).await.unwrap(), 80);
    }
}

const WRITERS: usize = 8;
const COMMITS: usize = 25;

async fn a_reader_at_the_tail_sees_every_event_once_and_in_order(world: World) {
    let writing = Arc::new(AtomicUsize::new(WRITERS));
    let seen = race(&world, WRITERS + 1, |racer, store| {
        let writing = writing.clone();
        async move {
            if racer == 0 {
                return tail(&*store, &writing).await;
            }
            write_events(&*store, racer).await;
            writing.fetch_sub(1, Ordering::SeqCst);
            Vec::new()
        }
    })
    .await
    .remove(0);
    let page = world.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert!(page.at_end);
    assert_eq!(seen, page.events, "the tail missed nothing and repeated nothing");
    for writer in 1..=WRITERS {
        let versions = seen.iter().filter(|event| event.stream == stream(&format!("s-{writer}")));
        let versions: Vec<Version> = versions.map(|event| event.version).collect();
        assert_eq!(versions, (1..=COMMITS as u64).map(version).collect::<Vec<_>>());
    }
}

/// Appends to its own stream and to a shared one.
async fn write_events(store: &dyn Store, writer: usize) {
    for nth in 0..COMMITS as u64 {
        let two = Commit::new()
            .append(&stream(&format!("s-{writer}")), ExpectedVersion::Any, [event(nth)])
            .append(&stream("shared"), ExpectedVersion::Any, [event(nth)]);
        commit(store, two).await;
        tokio::task::yield_now().await;
    }
}

/// Reads on until the writers are done and the feed has ended.
async fn tail(store: &dyn Store, writing: &AtomicUsize) -> Vec<StoredEvent> {
    let read_on = async {
        let (mut seen, mut after) = (Vec::new(), Position::START);
        loop {
            let done = writing.load(Ordering::SeqCst) == 0;
            let page = store.read_feed(FeedQuery::after(after).limit(7)).await.unwrap();
            assert!(
                page.events
                    .iter()
                    .all(|event| event.position > after && event.position <= page.next)
            );
            after = page.next;
            seen.extend(page.events);
            if done && page.at_end {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(secs(60), read_on).await.expect("the writers end")
}
