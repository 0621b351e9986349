//! Validation of names and numbers.

use tidelock_store::{
    Commit, EventType, ExpectedRevision, ExpectedVersion, FeedQuery, Fence, HeadQuery, ItemFilter,
    ItemKey, ItemQuery, ItemRef, LaneName, LeaseRequest, Mark, NewEvent, Position, Priority,
    QueueName, RecordKey, RecordQuery, RecordWrite, Result, Revision, Store, StoreExt, StreamName,
    Version, Wake, WorkerName, limits,
};

use super::{assert_invalid, assert_over};
use crate::case::{World, cases};
use crate::sample::{LEASE, commit, event, everything, lane, mark, queue, stream, value, worker};

cases! { "limits::names":
    "LIMIT-1" stream_names_and_event_types_of_full_length_are_kept,
    "LIMIT-1" record_keys_of_full_length_are_kept,
    "LIMIT-1" names_of_work_items_of_full_length_are_kept,
    "LIMIT-1" a_name_one_byte_longer_is_refused,
    "LIMIT-1" an_empty_name_is_refused,
    "LIMIT-1" a_name_with_a_control_character_is_refused,
    "LIMIT-1" a_prefix_has_the_limit_of_the_names_it_begins,
    "LIMIT-1" a_number_that_no_store_can_count_to_is_refused,
    "LIMIT-1" a_priority_stays_within_its_limit,
}

/// Each kind of name: its description, its limit, and its constructor.
type NameKind = (&'static str, usize, fn(&str) -> Result<()>);

const NAMES: [NameKind; 7] = [
    ("stream name", limits::STREAM_NAME_BYTES, |name| StreamName::new(name).map(drop)),
    ("event type", limits::EVENT_TYPE_BYTES, |name| EventType::new(name).map(drop)),
    ("record key", limits::RECORD_KEY_BYTES, |name| RecordKey::new(name).map(drop)),
    ("queue name", limits::QUEUE_NAME_BYTES, |name| QueueName::new(name).map(drop)),
    ("item key", limits::ITEM_KEY_BYTES, |name| ItemKey::new(name).map(drop)),
    ("lane name", limits::LANE_NAME_BYTES, |name| LaneName::new(name).map(drop)),
    ("worker name", limits::WORKER_NAME_BYTES, |name| WorkerName::new(name).map(drop)),
];

/// A name of this many bytes, two of them per character.
fn long(bytes: usize) -> String {
    "é".repeat(bytes / 2)
}

async fn stream_names_and_event_types_of_full_length_are_kept(world: World) {
    let (store, name) = (&*world.store, stream(&long(limits::STREAM_NAME_BYTES)));
    let event_type = EventType::new(long(limits::EVENT_TYPE_BYTES)).unwrap();
    let new = NewEvent { event_type: event_type.clone(), ..event(1) };
    commit(store, Commit::new().append(&name, ExpectedVersion::NoStream, [new])).await;

    let found = store.read_whole_stream(&name).await.unwrap();
    assert_eq!((found.len(), &found[0].stream, &found[0].event_type), (1, &name, &event_type));
    assert_eq!(store.heads(HeadQuery::prefix(name.as_str())).await.unwrap().heads[0].stream, name);
    let feed = FeedQuery::after(Position::START).stream_prefix(name.as_str()).types([event_type]);
    assert_eq!(store.read_feed(feed).await.unwrap().events, found);
}

async fn record_keys_of_full_length_are_kept(world: World) {
    let (store, key) = (&*world.store, crate::sample::key(&long(limits::RECORD_KEY_BYTES)));
    commit(store, Commit::new().write(RecordWrite::put(&key, ExpectedRevision::Absent, value(1))))
        .await;
    assert_eq!(store.get_one(&key).await.unwrap().live().unwrap().key, key);
    let page = store.scan(RecordQuery::prefix(key.as_str())).await.unwrap();
    assert_eq!((page.records.len(), &page.records[0].key), (1, &key));
}

async fn names_of_work_items_of_full_length_are_kept(world: World) {
    let store = &*world.store;
    let (queue, lane) =
        (queue(&long(limits::QUEUE_NAME_BYTES)), lane(&long(limits::LANE_NAME_BYTES)));
    let worker = worker(&long(limits::WORKER_NAME_BYTES));
    let item = ItemRef::new(&queue, &ItemKey::new(long(limits::ITEM_KEY_BYTES)).unwrap());
    commit(store, Commit::new().wake(Wake::to_mark(item.clone(), mark(1)).in_lane(lane.clone())))
        .await;

    let request = LeaseRequest::new(&queue, &worker, LEASE, 1).in_lane(&lane);
    let leased = store.lease(request).await.unwrap().leases;
    assert_eq!((&leased[0].item, &leased[0].lane), (&item, &lane));
    let found = store.items(ItemQuery::new(ItemFilter::queue(queue.as_str()))).await.unwrap().items;
    assert_eq!(found[0].holder.as_ref().unwrap().worker, worker);
}

async fn a_name_one_byte_longer_is_refused(_: World) {
    for (what, limit, make) in NAMES {
        assert!(make(&"x".repeat(limit)).is_ok(), "{what}");
        let error = make(&"x".repeat(limit + 1)).unwrap_err();
        assert_over(&error, limit);
        assert!(error.to_string().contains(what), "{error}");
        assert_over(&make(&format!("x{}", long(limit))).unwrap_err(), limit);
    }
}

async fn an_empty_name_is_refused(_: World) {
    for (what, _, make) in NAMES {
        assert_invalid(&make("").unwrap_err(), what);
    }
}

async fn a_name_with_a_control_character_is_refused(_: World) {
    for (what, _, make) in NAMES {
        for control in ['\0', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{85}'] {
            assert_invalid(&make(&format!("a{control}b")).unwrap_err(), what);
        }
    }
}

/// Reads everything with this prefix: the feed, the heads, the records.
async fn read_by_prefix(store: &dyn Store, of_streams: &str, of_keys: &str) -> [Result<()>; 3] {
    [
        store
            .read_feed(FeedQuery::after(Position::START).stream_prefix(of_streams))
            .await
            .map(drop),
        store.heads(HeadQuery::prefix(of_streams)).await.map(drop),
        store.scan(RecordQuery::prefix(of_keys)).await.map(drop),
    ]
}

async fn a_prefix_has_the_limit_of_the_names_it_begins(world: World) {
    let store = &*world.store;
    let of_length = |more| {
        ["x".repeat(limits::STREAM_NAME_BYTES + more), "x".repeat(limits::RECORD_KEY_BYTES + more)]
    };
    let [streams, keys] = of_length(0);
    assert!(read_by_prefix(store, &streams, &keys).await.iter().all(Result::is_ok));
    assert!(
        read_by_prefix(store, "", "").await.iter().all(Result::is_ok),
        "everything begins with nothing"
    );

    let [streams, keys] = of_length(1);
    let [feed, heads, scan] = read_by_prefix(store, &streams, &keys).await.map(Result::unwrap_err);
    assert_over(&feed, limits::STREAM_NAME_BYTES);
    assert_over(&heads, limits::STREAM_NAME_BYTES);
    assert_over(&scan, limits::RECORD_KEY_BYTES);
    for error in read_by_prefix(store, "a\0", "a\0").await.map(Result::unwrap_err) {
        assert_invalid(&error, "prefix");
    }
}

async fn a_number_that_no_store_can_count_to_is_refused(world: World) {
    let past = i64::MAX as u64 + 1;
    for number in [0, past] {
        assert_invalid(&Version::new(number).unwrap_err(), "version");
        assert_invalid(&Revision::new(number).unwrap_err(), "revision");
        assert_invalid(&Fence::new(number).unwrap_err(), "fence");
    }
    assert_invalid(&Position::new(past).unwrap_err(), "position");
    assert_invalid(&Mark::new(past).unwrap_err(), "mark");

    let furthest = Mark::new(past - 1).unwrap();
    let wake = Wake::to_mark(crate::sample::item("i"), furthest);
    commit(&*world.store, Commit::new().wake(wake)).await;
    assert_eq!(everything(&*world.store).await.items[0].mark, furthest);
}

async fn a_priority_stays_within_its_limit(world: World) {
    for priority in [limits::PRIORITY, -limits::PRIORITY] {
        let wake = Wake::to_mark(crate::sample::item(&format!("at {priority}")), mark(1));
        let priority = Priority::new(priority).unwrap();
        commit(&*world.store, Commit::new().wake(wake.with_priority(priority))).await;
    }
    let found: Vec<_> =
        everything(&*world.store).await.items.iter().map(|item| item.priority.get()).collect();
    assert_eq!(found, [-limits::PRIORITY, limits::PRIORITY]);
    for priority in [limits::PRIORITY + 1, -limits::PRIORITY - 1, i16::MAX, i16::MIN] {
        assert_over(&Priority::new(priority).unwrap_err(), limits::PRIORITY);
    }
}
