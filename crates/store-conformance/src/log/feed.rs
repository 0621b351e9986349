//! Reads of the feed of all streams.

use tidelock_store::{
    AfterTrim, Append, Commit, EventType, ExpectedVersion, FeedPage, FeedQuery, FeedStart,
    NewEvent, Position, RetryAdvice, Store, StoreErrorKind, StoreExt, StoredEvent, limits,
};

use crate::case::{World, cases};
use crate::sample::{commit, event, events, exact, json, refused_whole, stream, version};

cases! { "log::feed":
    "LOG-7" an_empty_feed_is_at_its_end,
    "LOG-7" the_feed_holds_every_event_once_in_the_order_of_commits,
    "LOG-7" pages_of_the_feed_of_any_size_miss_and_repeat_nothing,
    "LOG-7" a_page_that_takes_the_last_event_is_at_the_end,
    "LOG-7" a_reader_that_returns_gets_what_is_new,
    "LOG-10" a_position_that_was_never_given_out_is_refused,
    "LOG-7" a_filter_by_stream_takes_names_that_begin_so_to_the_letter,
    "LOG-7" a_filter_by_types_takes_any_of_them,
    "LOG-7" a_filter_by_metadata_takes_events_with_all_of_these_strings,
    "LOG-7" filters_together_take_what_passes_all,
    "LOG-7" pages_of_a_filtered_feed_miss_and_repeat_nothing,
    "LOG-7" a_filter_that_matches_nothing_goes_on_to_the_end,
    "LOG-7 LIMIT-1" a_filter_that_matches_nothing_in_a_long_feed_goes_on_in_steps,
    "LOG-7 LOG-9" a_trim_takes_its_events_out_of_the_feed_and_no_others,
    "LOG-7 LOG-9" positions_are_not_reused_after_the_newest_events_were_trimmed,
    "LOG-7" a_refused_append_leaves_nothing_in_the_feed,
    "LOG-11" the_end_of_an_empty_feed_is_its_start,
    "LOG-11" the_end_of_the_feed_is_where_what_comes_next_begins,
    "LOG-11 LOG-9" the_end_stays_where_it_was_when_the_newest_events_are_trimmed,
    "LOG-11" a_filter_and_a_limit_leave_the_end_where_it_is,
    "LOG-12" the_last_events_are_read_by_their_number,
    "LOG-12" events_before_a_position_are_read_by_their_number,
    "LOG-12 LOG-9" events_that_were_trimmed_are_not_counted_from_the_end,
    "LOG-12" a_filter_takes_from_the_last_events_what_passes,
    "LOG-12 LOG-10" nothing_is_read_before_a_position_that_was_never_given_out,
    "LOG-12 LIMIT-1" a_look_further_back_than_a_scan_is_refused,
}

fn all() -> FeedQuery {
    FeedQuery::after(Position::START)
}

async fn feed(store: &dyn Store) -> Vec<StoredEvent> {
    store.read_feed(all()).await.unwrap().events
}

/// Every page of this query up to the end.
async fn all_pages(store: &dyn Store, mut query: FeedQuery) -> Vec<StoredEvent> {
    let (mut found, mut before) = (Vec::new(), None);
    if let FeedStart::After(position) = query.from {
        before = Some(position);
    }
    loop {
        let mut page = store.read_feed(query.clone()).await.unwrap();
        assert!(page.events.len() <= query.limit);
        found.append(&mut page.events);
        if page.at_end {
            return found;
        }
        assert!(
            before.is_none_or(|before| page.next > before),
            "a page that is not the last gets further"
        );
        (before, query.from) = (Some(page.next), FeedStart::After(page.next));
    }
}

async fn append(store: &dyn Store, name: &str, events: impl IntoIterator<Item = NewEvent>) {
    commit(store, Commit::new().append(&stream(name), ExpectedVersion::Any, events)).await;
}

fn typed(name: &str) -> NewEvent {
    NewEvent { event_type: EventType::new(name).unwrap(), ..event(1) }
}

fn about(metadata: &str) -> NewEvent {
    event(1).with_metadata(json(metadata))
}

/// The numbers in the payloads of events that a query finds.
async fn numbers(store: &dyn Store, query: FeedQuery) -> Vec<u64> {
    let found = all_pages(store, query).await;
    found
        .iter()
        .map(|e| e.payload.to::<serde_json::Value>().unwrap()["number"].as_u64().unwrap())
        .collect()
}

/// One event for each, numbered from 1.
async fn numbered(store: &dyn Store, events: impl IntoIterator<Item = (&str, NewEvent)>) {
    for (number, (name, new)) in (1..).zip(events) {
        append(store, name, [NewEvent { payload: event(number).payload, ..new }]).await;
    }
}

async fn an_empty_feed_is_at_its_end(world: World) {
    let page = world.store.read_feed(all()).await.unwrap();
    assert_eq!(page, FeedPage { events: vec![], next: Position::START, at_end: true });
}

async fn the_feed_holds_every_event_once_in_the_order_of_commits(world: World) {
    let store = &*world.store;
    let given = [("b", events(2)), ("a", events(1)), ("b", events(1)), ("c", events(3))];
    for (name, events) in given.clone() {
        append(store, name, events).await;
    }
    let page = store.read_feed(all()).await.unwrap();
    let ids: Vec<_> = page.events.iter().map(|e| e.id).collect();
    assert_eq!(ids, given.iter().flat_map(|(_, events)| events).map(|e| e.id).collect::<Vec<_>>());
    assert!(page.events.is_sorted_by(|a, b| a.position < b.position));
    assert!(page.events[0].position > Position::START);
    assert_eq!((page.next, page.at_end), (page.events.last().unwrap().position, true));
}

async fn pages_of_the_feed_of_any_size_miss_and_repeat_nothing(world: World) {
    let store = &*world.store;
    for name in ["b", "a", "b"] {
        append(store, name, events(3)).await;
    }
    let whole = feed(store).await;
    for size in 1..=10 {
        assert_eq!(all_pages(store, all().limit(size)).await, whole, "pages of {size}");
    }
}

async fn a_page_that_takes_the_last_event_is_at_the_end(world: World) {
    let store = &*world.store;
    append(store, "s", events(4)).await;
    let whole = feed(store).await;
    for (limit, at_end) in [(3, false), (4, true), (5, true)] {
        let page = store.read_feed(all().limit(limit)).await.unwrap();
        let events = whole[..limit.min(4)].to_vec();
        assert_eq!(page, FeedPage { next: events.last().unwrap().position, events, at_end });
    }
}

async fn a_reader_that_returns_gets_what_is_new(world: World) {
    let store = &*world.store;
    append(store, "a", events(3)).await;
    let seen = store.read_feed(all()).await.unwrap().next;
    let page = store.read_feed(FeedQuery::after(seen)).await.unwrap();
    assert_eq!(page, FeedPage { events: vec![], next: seen, at_end: true });

    append(store, "b", events(2)).await;
    let page = world.another().await.read_feed(FeedQuery::after(seen)).await.unwrap();
    assert_eq!(page.events, feed(store).await[3..]);
    assert_eq!((page.next, page.at_end), (page.events[1].position, true));
}

async fn a_position_that_was_never_given_out_is_refused(world: World) {
    let store = &*world.store;
    append(store, "s", events(2)).await;
    let last = store.read_feed(all()).await.unwrap().next;
    for never in [last.plus(1), Position::new(i64::MAX as u64).unwrap()] {
        let refused = store.read_feed(FeedQuery::after(never)).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Rewound, RetryAdvice::Never),
            "{refused}"
        );
        assert!(refused.to_string().contains(&format!("the last one is {last}")), "{refused}");
    }

    let close = Append::closing(&stream("s"), exact(2));
    let trim =
        Commit::new().with_append(close).trim(&stream("s"), version(2), AfterTrim::StayClosed);
    commit(store, trim).await;
    let page = store.read_feed(FeedQuery::after(last)).await.unwrap();
    assert_eq!(
        page,
        FeedPage { events: vec![], next: last, at_end: true },
        "what was trimmed was given out"
    );
}

async fn a_filter_by_stream_takes_names_that_begin_so_to_the_letter(world: World) {
    let store = &*world.store;
    let names =
        ["order-1", "orders", "Order-2", "my-order-3", "order-4", "order_5", "order%6", "ordér-7"];
    numbered(store, names.map(|name| (name, event(0)))).await;
    for (prefix, expected) in [
        ("", &[1, 2, 3, 4, 5, 6, 7, 8][..]),
        ("order", &[1, 2, 5, 6, 7]),
        ("order-", &[1, 5]),
        ("order_", &[6]),
        ("order%", &[7]),
        ("ordé", &[8]),
        ("order-1", &[1]),
        ("order-11", &[]),
    ] {
        assert_eq!(numbers(store, all().stream_prefix(prefix)).await, expected, "{prefix:?}");
    }
}

async fn a_filter_by_types_takes_any_of_them(world: World) {
    let store = &*world.store;
    numbered(store, ["placed", "paid", "Paid", "shipped", "paid"].map(|name| ("s", typed(name))))
        .await;
    let of = |types: &[&str]| all().types(types.iter().map(|t| EventType::new(*t).unwrap()));
    assert_eq!(numbers(store, of(&[])).await, [1, 2, 3, 4, 5]);
    assert_eq!(numbers(store, of(&["paid"])).await, [2, 5]);
    assert_eq!(numbers(store, of(&["shipped", "placed", "lost"])).await, [1, 4]);
    assert_eq!(numbers(store, of(&["pai"])).await, [0; 0]);
}

async fn a_filter_by_metadata_takes_events_with_all_of_these_strings(world: World) {
    let store = &*world.store;
    let metadata = [
        r#"{"who":"anna","region":"eu"}"#,
        r#"{"who":"bert","region":"eu"}"#,
        r#"{"who":["anna"],"region":"us"}"#,
        r#"{"deep":{"who":"anna"},"n":7}"#,
        r#"{ "region" : "eu", "who" : "an\u006ea", "it's": "7" }"#,
        "{}",
    ];
    numbered(store, metadata.map(|metadata| ("s", about(metadata)))).await;
    assert_eq!(numbers(store, all().metadata("who", "anna")).await, [1, 5]);
    assert_eq!(numbers(store, all().metadata("region", "eu")).await, [1, 2, 5]);
    assert_eq!(numbers(store, all().metadata("region", "eu").metadata("who", "bert")).await, [2]);
    assert_eq!(numbers(store, all().metadata("it's", "7")).await, [5]);
    assert_eq!(numbers(store, all().metadata("n", "7")).await, [0; 0], "a number is no string");
    assert_eq!(
        numbers(store, all().metadata("deep.who", "anna")).await,
        [0; 0],
        "a name is no path"
    );
}

async fn filters_together_take_what_passes_all(world: World) {
    let store = &*world.store;
    let anna = |name: &str| typed(name).with_metadata(json(r#"{"who":"anna"}"#));
    numbered(
        store,
        [
            ("order-1", anna("paid")),
            ("order-1", typed("paid")),
            ("order-2", anna("placed")),
            ("user-1", anna("paid")),
            ("order-2", anna("paid")),
        ],
    )
    .await;
    let paid = all().types([EventType::new("paid").unwrap()]);
    assert_eq!(numbers(store, paid.stream_prefix("order-").metadata("who", "anna")).await, [1, 5]);
}

async fn pages_of_a_filtered_feed_miss_and_repeat_nothing(world: World) {
    let store = &*world.store;
    for name in ["a", "b", "b", "a", "b", "a"] {
        append(store, name, events(2)).await;
    }
    let of_a: Vec<_> = feed(store).await.into_iter().filter(|e| e.stream == stream("a")).collect();
    for size in 1..=7 {
        assert_eq!(
            all_pages(store, all().stream_prefix("a").limit(size)).await,
            of_a,
            "pages of {size}"
        );
    }
}

async fn a_filter_that_matches_nothing_goes_on_to_the_end(world: World) {
    let store = &*world.store;
    append(store, "s", events(5)).await;
    let last = feed(store).await[4].position;
    let page = store.read_feed(all().stream_prefix("t").limit(2)).await.unwrap();
    assert_eq!(page, FeedPage { events: vec![], next: last, at_end: true });
}

async fn a_filter_that_matches_nothing_in_a_long_feed_goes_on_in_steps(world: World) {
    let store = &*world.store;
    let commits = limits::FEED_SCAN / limits::EVENTS_PER_COMMIT;
    for _ in 0..commits {
        append(store, "many", events(limits::EVENTS_PER_COMMIT as u64)).await;
    }
    append(store, "rare", events(1)).await;

    let first = store.read_feed(all().stream_prefix("rare")).await.unwrap();
    assert!(first.events.is_empty(), "{} events were looked at in one call", limits::FEED_SCAN + 1);
    assert!(!first.at_end);
    let found = all_pages(store, all().stream_prefix("rare")).await;
    assert_eq!(found.len(), 1);
    assert!(all_pages(store, all().stream_prefix("none")).await.is_empty());
}

async fn a_trim_takes_its_events_out_of_the_feed_and_no_others(world: World) {
    let store = &*world.store;
    for name in ["a", "b", "a"] {
        append(store, name, events(2)).await;
    }
    let before = feed(store).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("a"), exact(4)))).await;
    commit(store, Commit::new().trim(&stream("a"), version(3), AfterTrim::StayClosed)).await;

    let left: Vec<_> =
        before.into_iter().filter(|e| e.stream == stream("b") || e.version == version(4)).collect();
    assert_eq!(feed(store).await, left);
    assert_eq!(all_pages(store, all().limit(1)).await, left);
}

async fn positions_are_not_reused_after_the_newest_events_were_trimmed(world: World) {
    let store = &*world.store;
    append(store, "a", events(1)).await;
    append(store, "b", events(2)).await;
    let seen = store.read_feed(all()).await.unwrap().next;
    commit(store, Commit::new().with_append(Append::closing(&stream("b"), exact(2)))).await;
    commit(store, Commit::new().trim(&stream("b"), version(2), AfterTrim::StayClosed)).await;
    assert_eq!(feed(store).await.len(), 1);

    append(&*world.another().await, "c", events(1)).await;

    let page = store.read_feed(FeedQuery::after(seen)).await.unwrap();
    assert_eq!(page.events.len(), 1, "a reader who had seen the trimmed events misses nothing");
    assert!(page.events[0].position > seen);
}

async fn a_refused_append_leaves_nothing_in_the_feed(world: World) {
    let store = &*world.store;
    append(store, "a", events(1)).await;
    let refused = Commit::new().append(&stream("b"), ExpectedVersion::NoStream, events(2)).append(
        &stream("a"),
        exact(7),
        events(2),
    );
    refused_whole(store, refused).await;
    append(store, "c", events(1)).await;
    let streams: Vec<_> = feed(store).await.iter().map(|e| e.stream.to_string()).collect();
    assert_eq!(streams, ["a", "c"]);
}

/// The end of the feed, as the whole page.
async fn end(store: &dyn Store) -> Position {
    let page = store.read_feed(FeedQuery::end()).await.unwrap();
    assert_eq!((page.events.len(), page.at_end), (0, true));
    assert_eq!(store.feed_end().await.unwrap(), page.next);
    page.next
}

fn last(events: usize) -> FeedQuery {
    FeedQuery::from(FeedStart::Last(events))
}

fn before(position: Position, events: usize) -> FeedQuery {
    FeedQuery::from(FeedStart::Before(position, events))
}

async fn close_and_trim(store: &dyn Store, name: &str, to: u64) {
    commit(store, Commit::new().with_append(Append::closing(&stream(name), exact(to)))).await;
    commit(store, Commit::new().trim(&stream(name), version(to), AfterTrim::StayClosed)).await;
}

async fn the_end_of_an_empty_feed_is_its_start(world: World) {
    assert_eq!(end(&*world.store).await, Position::START);
    append(&*world.store, "a", events(1)).await;
    assert_eq!(feed(&*world.store).await.len(), 1, "what comes is read on from there");
}

async fn the_end_of_the_feed_is_where_what_comes_next_begins(world: World) {
    let store = &*world.store;
    for name in ["a", "b", "a"] {
        append(store, name, events(3)).await;
        assert_eq!(end(store).await, feed(store).await.last().unwrap().position);
    }
    let (here, there) = (end(store).await, end(&*world.another().await).await);
    assert_eq!(here, there);
    let page = store.read_feed(FeedQuery::after(here)).await.unwrap();
    assert_eq!(page, FeedPage { events: vec![], next: here, at_end: true });

    append(store, "c", events(2)).await;
    let new = store.read_feed(FeedQuery::after(here)).await.unwrap().events;
    assert_eq!(new.iter().map(|e| e.stream.as_str()).collect::<Vec<_>>(), ["c", "c"]);
}

async fn the_end_stays_where_it_was_when_the_newest_events_are_trimmed(world: World) {
    let store = &*world.store;
    append(store, "a", events(1)).await;
    append(store, "b", events(2)).await;
    let here = end(store).await;
    close_and_trim(store, "b", 2).await;
    assert_eq!(end(store).await, here);
    let page = store.read_feed(FeedQuery::after(here)).await.unwrap();
    assert_eq!(page, FeedPage { events: vec![], next: here, at_end: true });

    append(store, "c", events(1)).await;
    assert_eq!(store.read_feed(FeedQuery::after(here)).await.unwrap().events.len(), 1);
}

async fn a_filter_and_a_limit_leave_the_end_where_it_is(world: World) {
    let store = &*world.store;
    append(store, "a", events(5)).await;
    let here = end(store).await;
    for query in
        [FeedQuery::end().stream_prefix("b"), FeedQuery::end().metadata("who", "anna").limit(1)]
    {
        let page = store.read_feed(query).await.unwrap();
        assert_eq!(page, FeedPage { events: vec![], next: here, at_end: true });
    }
    let refused = store.read_feed(FeedQuery::end().limit(0)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
}

async fn the_last_events_are_read_by_their_number(world: World) {
    let store = &*world.store;
    assert_eq!(store.read_feed(last(3)).await.unwrap().next, Position::START);
    for name in ["a", "b", "a"] {
        append(store, name, events(2)).await;
    }
    let whole = feed(store).await;
    for count in 1..=8 {
        assert_eq!(
            all_pages(store, last(count)).await,
            whole[6_usize.saturating_sub(count)..],
            "{count}"
        );
    }
    let page = store.read_feed(last(4).limit(3)).await.unwrap();
    assert_eq!(
        page,
        FeedPage { events: whole[2..5].to_vec(), next: whole[4].position, at_end: false }
    );
}

async fn events_before_a_position_are_read_by_their_number(world: World) {
    let store = &*world.store;
    append(store, "a", events(6)).await;
    let whole = feed(store).await;
    for (at, event) in (0_usize..).zip(&whole) {
        for count in 0..8 {
            let from = (at + 1).saturating_sub(count);
            let query = before(event.position, count);
            assert_eq!(all_pages(store, query).await, whole[from..], "{count} up to {at}");
        }
    }
    assert_eq!(all_pages(store, before(Position::START, 3)).await, whole);
}

async fn events_that_were_trimmed_are_not_counted_from_the_end(world: World) {
    let store = &*world.store;
    for name in ["a", "b", "a", "b"] {
        append(store, name, events(2)).await;
    }
    let here = end(store).await;
    close_and_trim(store, "b", 4).await;
    let left = feed(store).await;
    assert_eq!(all_pages(store, last(3)).await, left[1..]);
    assert_eq!(all_pages(store, before(here, 1)).await, left[3..]);
    assert_eq!(all_pages(store, last(9)).await, left);
}

async fn a_filter_takes_from_the_last_events_what_passes(world: World) {
    let store = &*world.store;
    numbered(store, ["a", "b", "a", "b", "a"].map(|name| (name, event(0)))).await;
    assert_eq!(numbers(store, last(4).stream_prefix("a")).await, [3, 5]);
    assert_eq!(numbers(store, last(1).stream_prefix("b")).await, [0; 0]);
}

async fn nothing_is_read_before_a_position_that_was_never_given_out(world: World) {
    let store = &*world.store;
    append(store, "s", events(2)).await;
    let never = end(store).await.plus(1);
    for count in [0, 1, 5] {
        let refused = store.read_feed(before(never, count)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Rewound, "{refused}");
    }
}

async fn a_look_further_back_than_a_scan_is_refused(world: World) {
    let store = &*world.store;
    for query in [last(limits::FEED_SCAN + 1), before(Position::START, limits::FEED_SCAN + 1)] {
        let refused = store.read_feed(query).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::LimitExceeded, "{refused}");
    }
    assert!(store.read_feed(last(limits::FEED_SCAN)).await.unwrap().at_end);
}
