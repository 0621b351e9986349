//! Reads of one stream, forward and backward, in pages.

use tidelock_store::{
    AfterTrim, Append, Commit, ExpectedVersion, Store, StoreExt, StoredEvent, StreamPage,
    StreamQuery, StreamState,
};

use crate::case::{World, cases};
use crate::sample::{commit, events, exact, stream, version};

cases! { "log::read":
    "LOG-6" a_stream_is_read_forward_and_backward,
    "LOG-6" a_read_begins_with_the_version_it_names,
    "LOG-6" a_limit_cuts_a_page_and_says_where_to_go_on,
    "LOG-6" pages_of_any_size_miss_and_repeat_nothing_forward,
    "LOG-6" pages_of_any_size_miss_and_repeat_nothing_backward,
    "LOG-6" a_read_past_the_end_is_an_empty_page,
    "LOG-6" a_page_goes_on_into_what_was_appended_meanwhile,
    "LOG-6 LOG-8" a_stream_that_does_not_exist_is_an_empty_page_that_says_so,
    "LOG-6 LOG-8" a_closed_stream_is_read_like_an_open_one,
    "LOG-6 LOG-9" a_trimmed_stream_is_read_from_the_first_event_left,
    "LOG-6 LOG-8" a_stream_without_events_left_is_an_empty_page_at_its_version,
    "LOG-6" streams_whose_names_begin_alike_are_apart,
}

/// A stream "s" of that many events, as they were stored.
async fn given(store: &dyn Store, count: u64) -> Vec<StoredEvent> {
    commit(store, Commit::new().append(&stream("s"), ExpectedVersion::NoStream, events(count)))
        .await;
    let events = store.read_stream(StreamQuery::forward(&stream("s"))).await.unwrap().events;
    assert_eq!(events.len() as u64, count);
    events
}

fn forward() -> StreamQuery {
    StreamQuery::forward(&stream("s"))
}

fn backward() -> StreamQuery {
    StreamQuery::backward(&stream("s"))
}

fn reversed(events: &[StoredEvent]) -> Vec<StoredEvent> {
    events.iter().rev().cloned().collect()
}

/// The page of a whole open stream.
fn whole(events: Vec<StoredEvent>) -> StreamPage {
    let state = StreamState::Open(version(events.len() as u64));
    StreamPage { events, state, first: Some(version(1)), next: None }
}

async fn all_pages(store: &dyn Store, mut query: StreamQuery) -> Vec<StoredEvent> {
    let mut found = Vec::new();
    loop {
        let mut page = store.read_stream(query.clone()).await.unwrap();
        assert!(!page.events.is_empty(), "there is more where a page says so");
        assert!(page.events.len() <= query.limit);
        found.append(&mut page.events);
        let Some(next) = page.next else { return found };
        assert_ne!(Some(next), query.from, "each page gets further");
        query.from = Some(next);
    }
}

async fn a_stream_is_read_forward_and_backward(world: World) {
    let store = &*world.store;
    let there = given(store, 5).await;
    assert_eq!(store.read_stream(forward()).await.unwrap(), whole(there.clone()));
    assert_eq!(
        store.read_stream(backward()).await.unwrap(),
        StreamPage { events: reversed(&there), ..whole(there) }
    );
}

async fn a_read_begins_with_the_version_it_names(world: World) {
    let store = &*world.store;
    let there = given(store, 5).await;
    let page = store.read_stream(forward().from(version(3))).await.unwrap();
    assert_eq!(page, StreamPage { events: there[2..].to_vec(), ..whole(there.clone()) });
    let page = store.read_stream(backward().from(version(3))).await.unwrap();
    assert_eq!(page, StreamPage { events: reversed(&there[..3]), ..whole(there) });
}

async fn a_limit_cuts_a_page_and_says_where_to_go_on(world: World) {
    let store = &*world.store;
    let there = given(store, 5).await;
    let cut = |events: &[StoredEvent], next| StreamPage {
        events: events.to_vec(),
        next,
        ..whole(there.clone())
    };
    let read = async |query| store.read_stream(query).await.unwrap();
    assert_eq!(read(forward().limit(2)).await, cut(&there[..2], Some(version(3))));
    assert_eq!(read(backward().limit(2)).await, cut(&reversed(&there[3..]), Some(version(3))));
    assert_eq!(read(forward().limit(5)).await, cut(&there, None), "nothing is left after the last");
    assert_eq!(read(backward().limit(5)).await, cut(&reversed(&there), None));
    assert_eq!(read(backward().from(version(1)).limit(1)).await, cut(&there[..1], None));
}

async fn pages_of_any_size_miss_and_repeat_nothing_forward(world: World) {
    let store = &*world.store;
    let there = given(store, 7).await;
    for size in 1..=8 {
        assert_eq!(all_pages(store, forward().limit(size)).await, there, "pages of {size}");
    }
}

async fn pages_of_any_size_miss_and_repeat_nothing_backward(world: World) {
    let store = &*world.store;
    let there = reversed(&given(store, 7).await);
    for size in 1..=8 {
        assert_eq!(all_pages(store, backward().limit(size)).await, there, "pages of {size}");
    }
}

async fn a_read_past_the_end_is_an_empty_page(world: World) {
    let store = &*world.store;
    let there = given(store, 2).await;
    for from in [version(3), version(i64::MAX as u64)] {
        let page = store.read_stream(forward().from(from)).await.unwrap();
        assert_eq!(page, StreamPage { events: vec![], ..whole(there.clone()) });
        let page = store.read_stream(backward().from(from)).await.unwrap();
        assert_eq!(page.events, reversed(&there), "backward, the end is where it begins");
    }
}

async fn a_page_goes_on_into_what_was_appended_meanwhile(world: World) {
    let store = &*world.store;
    given(store, 3).await;
    let page = store.read_stream(forward().limit(2)).await.unwrap();
    commit(store, Commit::new().append(&stream("s"), exact(3), events(1))).await;
    let rest = store.read_stream(forward().from(page.next.unwrap())).await.unwrap();
    assert_eq!(rest.events.iter().map(|e| e.version.get()).collect::<Vec<_>>(), [3, 4]);
    assert_eq!((rest.state, rest.next), (StreamState::Open(version(4)), None));
}

async fn a_stream_that_does_not_exist_is_an_empty_page_that_says_so(world: World) {
    let nothing =
        StreamPage { events: vec![], state: StreamState::Absent, first: None, next: None };
    for query in [forward(), backward(), forward().from(version(1)), backward().from(version(1))] {
        assert_eq!(world.store.read_stream(query).await.unwrap(), nothing);
    }
}

async fn a_closed_stream_is_read_like_an_open_one(world: World) {
    let store = &*world.store;
    let there = given(store, 3).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(3)))).await;
    let closed = StreamPage { state: StreamState::Closed(version(3)), ..whole(there.clone()) };
    assert_eq!(store.read_stream(forward()).await.unwrap(), closed);
    assert_eq!(all_pages(store, backward().limit(2)).await, reversed(&there));
}

async fn a_trimmed_stream_is_read_from_the_first_event_left(world: World) {
    let store = &*world.store;
    let there = given(store, 5).await;
    let trim = Commit::new().with_append(Append::closing(&stream("s"), exact(5))).trim(
        &stream("s"),
        version(2),
        AfterTrim::Reopen,
    );
    commit(store, trim).await;

    let left =
        StreamPage { events: there[2..].to_vec(), first: Some(version(3)), ..whole(there.clone()) };
    for from in [1, 2, 3] {
        assert_eq!(store.read_stream(forward().from(version(from))).await.unwrap(), left);
    }
    let page = store.read_stream(forward().from(version(4))).await.unwrap();
    assert_eq!(page, StreamPage { events: there[3..].to_vec(), ..left.clone() });
    let page = store.read_stream(backward().from(version(2))).await.unwrap();
    assert_eq!(page, StreamPage { events: vec![], ..left });
    for size in 1..=4 {
        assert_eq!(all_pages(store, backward().limit(size)).await, reversed(&there[2..]));
        assert_eq!(all_pages(store, forward().limit(size)).await, there[2..]);
    }
}

async fn a_stream_without_events_left_is_an_empty_page_at_its_version(world: World) {
    let store = &*world.store;
    given(store, 2).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(2)))).await;
    commit(store, Commit::new().trim(&stream("s"), version(2), AfterTrim::StayClosed)).await;
    let state = StreamState::Closed(version(2));
    let empty = StreamPage { events: vec![], state, first: None, next: None };
    for query in [forward(), backward(), forward().from(version(1)), backward().from(version(2))] {
        assert_eq!(store.read_stream(query).await.unwrap(), empty);
    }
}

async fn streams_whose_names_begin_alike_are_apart(world: World) {
    let store = &*world.store;
    for name in ["s", "S", "s1", "s%", "s_", "s "] {
        commit(store, Commit::new().append(&stream(name), ExpectedVersion::NoStream, events(1)))
            .await;
    }
    let found = store.read_whole_stream(&stream("s")).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].stream, stream("s"));
}
