//! The feed: pages, streams and followers.

use std::time::Duration;

use futures_util::StreamExt;
use tidelock::ErrorKind;
use tidelock::feed::Follow;
use tidelock::prelude::*;
use tidelock::scopes::ScopeFilter;
use tidelock::store::{NewEvent, StoreExt, StreamName};

use crate::harness::{Ground, on_every_store};
use crate::shop::{Stepped, Stock, StockEvent, receive};

on_every_store!(
    a_follower_gets_each_event_once_in_order_also_new_ones,
    a_follower_from_the_end_gets_only_new_events,
    a_typed_feed_decodes_the_events_of_its_type,
    an_event_behind_thousands_of_others_is_found,
    an_event_that_cannot_be_decoded_ends_the_follower,
    a_list_reads_all_rows_across_pages,
);

/// Long enough for any wait of a test that succeeds.
const LONG: Duration = Duration::from_secs(30);

async fn append(tidelock: &Tidelock, stream: &str, event_type: &str, events: usize) {
    let stream = StreamName::new(stream).unwrap();
    let event = |n| NewEvent::of(event_type, &serde_json::json!({ "units": n })).unwrap();
    let events = (0..events).map(event).collect();
    let store = tidelock.store();
    store.append(&stream, ExpectedVersion::Any, events).await.unwrap().committed().unwrap();
}

async fn next<T>(events: &mut Follow<T>) -> tidelock::Result<T> {
    tokio::time::timeout(LONG, events.next()).await.unwrap().unwrap()
}

/// READ-3.
async fn a_follower_gets_each_event_once_in_order_also_new_ones(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    append(&tidelock, "a-1", "noted", 3).await;
    append(&tidelock, "~own-1", "hidden", 1).await;
    let mut events = tidelock.feed().follow();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(next(&mut events).await.unwrap());
    }
    let waiting = tokio::spawn(async move { (next(&mut events).await, events) });
    append(&other, "b-1", "noted", 2).await;
    let (event, mut events) = waiting.await.unwrap();
    seen.push(event.unwrap());
    seen.push(next(&mut events).await.unwrap());
    let names: Vec<_> = seen.iter().map(|e| (e.stream.as_str(), e.version.get())).collect();
    assert_eq!(names, [("a-1", 1), ("a-1", 2), ("a-1", 3), ("b-1", 1), ("b-1", 2)]);
    assert!(seen.is_sorted_by(|one, next| one.position < next.position));

    let mut rest = tidelock.feed().after(seen[2].position).follow();
    assert_eq!(next(&mut rest).await.unwrap(), seen[3], "a follower continues after a position");
    let own = tidelock.feed().streams("~own-").all().await.unwrap();
    assert_eq!(own.len(), 1, "reserved streams are read by their name");
}

async fn a_follower_from_the_end_gets_only_new_events(ground: Ground) {
    let tidelock = ground.open().await;
    append(&tidelock, "a-1", "noted", 2).await;
    let mut events = tidelock.feed().from_end().follow();
    let first = next(&mut events);
    // It is not known when the follower has found the end: new events come until it returns one.
    let appending = async {
        loop {
            append(&tidelock, "a-1", "noted", 1).await;
        }
    };
    let event =
        tokio::select! { event = first => event.unwrap(), () = appending => unreachable!() };
    assert!(event.version.get() > 2, "old events are not repeated");
}

async fn a_typed_feed_decodes_the_events_of_its_type(ground: Ground) {
    let tidelock = ground.open().await;
    tidelock.aggregate::<Stock>("tea").execute(receive(3)).await.unwrap();
    append(&tidelock, "other-1", "noted", 1).await;
    let page = tidelock.feed().of::<StockEvent>().limit(10).all().await.unwrap();
    let events: Vec<_> = page.iter().map(|event| event.event.clone()).collect();
    assert_eq!(events, [StockEvent::Received { units: 3 }]);
    let mut followed = tidelock.feed().of::<StockEvent>().follow();
    assert_eq!(next(&mut followed).await.unwrap(), page[0]);
    let noted = tidelock.feed().types(["noted"]).all().await.unwrap();
    assert_eq!(noted.len(), 1);
    let refused = tidelock.feed().types([""]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "a name is checked when the feed is read");
}

/// READ-3.
async fn an_event_behind_thousands_of_others_is_found(ground: Ground) {
    let tidelock = ground.open().await;
    for _ in 0..11 {
        append(&tidelock, "a-1", "noted", 1_000).await;
    }
    append(&tidelock, "b-1", "stepped", 1).await;
    let mut events = tidelock.feed().of::<Stepped>().follow();
    assert_eq!(next(&mut events).await.unwrap().stream.as_str(), "b-1");
    assert_eq!(tidelock.feed().of::<Stepped>().all().await.unwrap().len(), 1);
}

async fn an_event_that_cannot_be_decoded_ends_the_follower(ground: Ground) {
    let tidelock = ground.open().await;
    append(&tidelock, "a-1", "reserved", 1).await; // without an order
    let mut events = tidelock.feed().of::<StockEvent>().follow();
    let error = next(&mut events).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable);
    assert!(events.next().await.is_none(), "it is not repeated endlessly");
}

async fn a_list_reads_all_rows_across_pages(ground: Ground) {
    let tidelock = ground.open().await;
    for n in 0..7 {
        let basket = tidelock.scope::<i64>(ScopeKind::SESSION, format!("b-{n}"));
        basket.set(&(n + 1)).await.unwrap();
    }
    tidelock.scope::<i64>(ScopeKind::SESSION, "other").set(&9).await.unwrap();
    let scopes = tidelock.scopes();
    let list = || scopes.list(&ScopeFilter::kind("session").id_prefix("b-")).limit(2);
    let ids: Vec<_> = list().all().await.unwrap().into_iter().map(|scope| scope.id).collect();
    assert_eq!(ids, ["b-0", "b-1", "b-2", "b-3", "b-4", "b-5", "b-6"]);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = list().after(after).await.unwrap();
        assert!(page.items.len() <= 2);
        paged.extend(page.items.into_iter().map(|scope| scope.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, ids);
}
