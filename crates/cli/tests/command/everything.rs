//! A store with one of everything, and what of it is moved to another.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidelock::When;
use tidelock::prelude::*;
use tidelock::store::{
    AfterTrim, Append, Commit, ExpectedRevision, FeedQuery, HeadQuery, Item, ItemFilter, ItemQuery,
    ItemRef, Mark, NewEvent, Position, RawJson, RecordKey, RecordQuery, RecordWrite, Settlement,
    Store, StoreExt, StoredEvent, StreamName, Version, Wake,
};

use crate::harness::{PATIENCE, append, block, lease, wake};

/// Everything about an event that is moved, in the order of the feed.
pub(crate) async fn facts(store: &dyn Store) -> Vec<Value> {
    let (mut after, mut facts) = (Position::START, Vec::new());
    loop {
        let page = store.read_feed(FeedQuery::after(after)).await.unwrap();
        facts.extend(page.events.iter().map(fact));
        after = page.next;
        if page.at_end {
            return facts;
        }
    }
}

fn fact(event: &StoredEvent) -> Value {
    json!([event.id, event.stream, event.version, event.event_type, event.payload, event.metadata])
}

/// Everything about streams, records and items that is moved.
pub(crate) async fn rest(store: &dyn Store) -> (Vec<Value>, BTreeMap<String, Value>, Vec<Value>) {
    let heads = store.heads(HeadQuery::prefix("")).await.unwrap().heads;
    let heads = heads.iter().map(|head| json!([head.stream, head.state, head.count])).collect();
    let records = store.scan(RecordQuery::prefix("")).await.unwrap().records;
    let records = records.into_iter().filter(|record| !record.key.as_str().starts_with("~import/"));
    let records = records.map(|r| (r.key.to_string(), json!([r.value, r.expires_at]))).collect();
    let items = store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items;
    (heads, records, items.iter().map(kept).collect())
}

fn kept(item: &Item) -> Value {
    // A held item is imported as one that its holder has released.
    let due = item.holder.as_ref().map(|holder| holder.since).or(item.due);
    let counts = [item.attempts, item.failures, item.expiries];
    let place = json!([item.item, item.lane, item.priority, item.at, item.mark]);
    json!([place, due, item.hold, counts, item.blocked, item.error])
}

/// One of everything that a store can have.
pub(crate) async fn fill(store: &dyn Store) {
    for nth in 0..40 {
        append(
            store,
            &format!("order-{}", nth % 7),
            "placed",
            &[json!({ "nth": nth }), json!("ünï \u{202e} \u{7f}")],
        )
        .await;
    }
    let closed = StreamName::new("closed").unwrap();
    append(store, "closed", "noted", &[json!(1), json!(2)]).await;
    store
        .commit(Commit::new().with_append(Append::closing(&closed, ExpectedVersion::Exists)))
        .await
        .unwrap()
        .committed()
        .unwrap();
    let (trimmed, event) =
        (StreamName::new("trimmed").unwrap(), NewEvent::of("noted", &9).unwrap());
    append(store, "trimmed", "noted", &[json!(1), json!(2), json!(3)]).await;
    let close = Append::closing(&trimmed, ExpectedVersion::Exists);
    let trim = Commit::new().with_append(close).trim(
        &trimmed,
        Version::new(2).unwrap(),
        AfterTrim::Reopen,
    );
    store.commit(trim).await.unwrap().committed().unwrap();
    let gone = StreamName::new("gone").unwrap();
    let commit = Commit::new().append(&gone, ExpectedVersion::Any, [event]);
    store.commit(commit).await.unwrap().committed().unwrap();
    let close = Append::closing(&gone, ExpectedVersion::Exists);
    let trim = Commit::new().with_append(close).trim(&gone, Version::FIRST, AfterTrim::StayClosed);
    store.commit(trim).await.unwrap().committed().unwrap();
    records(store).await;
    items(store).await;
}

async fn records(store: &dyn Store) {
    let key = |name: &str| RecordKey::new(name).unwrap();
    store
        .put(&key("plain"), ExpectedRevision::Any, RawJson::parse("{\n \"a\": 1.50 }").unwrap())
        .await
        .unwrap()
        .committed()
        .unwrap();
    let expiring =
        RecordWrite::put(&key("expiring"), ExpectedRevision::Any, RawJson::new("soon").unwrap());
    let commit = Commit::new()
        .write(expiring.expiring(When::In(PATIENCE * 1000)))
        .write(RecordWrite::put(&key("gone"), ExpectedRevision::Any, RawJson::new(&1).unwrap()));
    store.commit(commit).await.unwrap().committed().unwrap();
    let delete = Commit::new().write(RecordWrite::delete(&key("gone"), ExpectedRevision::Exists));
    store.commit(delete).await.unwrap().committed().unwrap();
}

async fn items(store: &dyn Store) {
    block(store, "mail", "blocked", "no address").await;
    wake(store, "mail", "retried", 4).await;
    let retried = lease(store, "mail", PATIENCE).await;
    let retry = Settlement::retry(retried.token(), PATIENCE * 1000, "later")
        .having_done(Mark::new(2).unwrap());
    store.commit(Commit::new().settle(retry)).await.unwrap().committed().unwrap();
    wake(store, "mail", "done", 4).await;
    let done = lease(store, "mail", PATIENCE).await;
    store.commit(Commit::new().settle(done.ack())).await.unwrap().committed().unwrap();
    wake(store, "mail", "held", 2).await;
    lease(store, "mail", PATIENCE).await;
    wake(store, "mail", "due", 6).await;
    let timer = Wake::at(ItemRef::parse("timers", "later").unwrap(), When::In(PATIENCE * 1000))
        .in_lane(tidelock::store::LaneName::new("slow").unwrap())
        .with_priority(tidelock::store::Priority::new(7).unwrap());
    store.commit(Commit::new().wake(timer)).await.unwrap().committed().unwrap();
}
