//! Page sizes: how much one read can ask for.

use tidelock_store::{
    Adjustment, Commit, EventType, ExpectedRevision, ExpectedVersion, FeedQuery, HeadQuery,
    ItemFilter, ItemQuery, NamePattern, Position, Priority, RecordQuery, RecordWrite, Result,
    Store, StoreExt, StreamQuery, Wake, limits,
};

use super::{assert_invalid, assert_over};
use crate::case::{World, cases};
use crate::sample::{commit, events, everything, item, key, mark, stream, value, wake};

cases! { "limits::pages":
    "LIMIT-1" a_page_of_full_size_can_be_asked_for_and_no_larger_one,
    "LIMIT-1" a_page_of_nothing_cannot_be_asked_for,
    "LIMIT-1 LOG-6 REC-6" a_page_of_full_size_is_filled,
    "READ-2 REC-6 LEASE-10" what_lies_behind_more_rows_than_one_call_looks_at_is_reached,
    "READ-2 LOG-6 LOG-7" rows_come_one_by_one_however_small_the_pages,
    "LIMIT-1 REC-6" so_many_keys_can_be_read_at_once_and_no_more,
    "LIMIT-1" so_many_heads_can_be_asked_for_by_name_and_no_more,
    "LIMIT-1" a_filter_of_the_feed_can_name_so_much_and_no_more,
    "LIMIT-1 LEASE-10" a_filter_of_items_can_name_so_many_and_no_more,
    "LIMIT-1 LEASE-10" a_pattern_has_the_limit_of_the_names_it_matches,
}

const LIMIT: usize = limits::PAGE_SIZE;

/// Requests a page of this size from every paged read.
async fn pages_of(store: &dyn Store, limit: usize) -> [Result<()>; 5] {
    let items = ItemQuery::new(ItemFilter::default()).limit(limit);
    let heads = HeadQuery::Prefix { prefix: String::new(), after: None, limit };
    [
        store.read_stream(StreamQuery::forward(&stream("s")).limit(limit)).await.map(drop),
        store.read_feed(FeedQuery::after(Position::START).limit(limit)).await.map(drop),
        store.heads(heads).await.map(drop),
        store.scan(RecordQuery::prefix("").limit(limit)).await.map(drop),
        store.items(items).await.map(drop),
    ]
}

async fn a_page_of_full_size_can_be_asked_for_and_no_larger_one(world: World) {
    let store = &*world.store;
    assert!(pages_of(store, LIMIT).await.iter().all(Result::is_ok));
    for limit in [LIMIT + 1, usize::MAX] {
        for error in pages_of(store, limit).await.map(Result::unwrap_err) {
            assert_over(&error, LIMIT);
        }
    }
}

async fn a_page_of_nothing_cannot_be_asked_for(world: World) {
    for error in pages_of(&*world.store, 0).await.map(Result::unwrap_err) {
        assert_invalid(&error, "page");
    }
}

async fn a_page_of_full_size_is_filled(world: World) {
    let store = &*world.store;
    let many = (0..LIMIT).fold(Commit::new(), |commit, number| {
        commit.write(RecordWrite::put(
            &key(&format!("{number:04}")),
            ExpectedRevision::Absent,
            value(1),
        ))
    });
    commit(store, many).await;
    commit(
        store,
        Commit::new().append(&stream("s"), ExpectedVersion::NoStream, events(LIMIT as u64)),
    )
    .await;
    let one_more = RecordWrite::put(&key("last"), ExpectedRevision::Absent, value(1));
    commit(
        store,
        Commit::new().write(one_more).append(&stream("s"), ExpectedVersion::Any, events(1)),
    )
    .await;

    let page = store.read_stream(StreamQuery::forward(&stream("s"))).await.unwrap();
    assert_eq!((page.events.len(), page.next.unwrap().get()), (LIMIT, LIMIT as u64 + 1));
    let page = store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!((page.events.len(), page.at_end), (LIMIT, false));
    let page = store.scan(RecordQuery::prefix("")).await.unwrap();
    assert_eq!((page.records.len(), page.next), (LIMIT, Some(key("0999"))));
}

/// Deleted records, and items that do not pass the filter.
async fn what_lies_behind_more_rows_than_one_call_looks_at_is_reached(world: World) {
    let store = &*world.store;
    let passed_over = || (0..=limits::FEED_SCAN).collect::<Vec<_>>();
    for some in passed_over().chunks(limits::PARTS_PER_COMMIT / 2) {
        let put = |commit: Commit, nth: &usize| {
            let write =
                RecordWrite::put(&key(&format!("a-{nth:05}")), ExpectedRevision::Any, value(1));
            commit.write(write).wake(Wake::to_mark(item(&format!("a-{nth:05}")), mark(1)))
        };
        commit(store, some.iter().fold(Commit::new(), put)).await;
        let delete = |commit: Commit, nth: &usize| {
            commit.write(RecordWrite::delete(&key(&format!("a-{nth:05}")), ExpectedRevision::Any))
        };
        commit(store, some.iter().fold(Commit::new(), delete)).await;
    }
    for name in ["z-1", "z-2"] {
        let write = RecordWrite::put(&key(name), ExpectedRevision::Any, value(1));
        commit(store, Commit::new().write(write).wake(Wake::to_mark(item(name), mark(1)))).await;
    }
    let names = ["z-1", "z-2"].map(key);
    for limit in [1, 2, LIMIT] {
        let records = store.rows(RecordQuery::prefix("").limit(limit)).all().await.unwrap();
        assert_eq!(records.into_iter().map(|record| record.key).collect::<Vec<_>>(), names);
        let z = ItemFilter::queue("q").key(NamePattern::like("z*"));
        let items = store.rows(ItemQuery::new(z.clone()).limit(limit)).all().await.unwrap();
        assert_eq!(
            items.into_iter().map(|found| found.item).collect::<Vec<_>>(),
            ["z-1", "z-2"].map(item)
        );
        let most = limit.min(2);
        let page = store.full_page(RecordQuery::prefix("").limit(limit)).await.unwrap();
        assert_eq!((page.records.len(), page.next.is_some()), (most, most < 2));
        let page = store.full_page(ItemQuery::new(z).limit(limit)).await.unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (most, most < 2));
    }
}

async fn rows_come_one_by_one_however_small_the_pages(world: World) {
    let store = &*world.store;
    for name in ["s", "t", "u"] {
        commit(store, Commit::new().append(&stream(name), ExpectedVersion::NoStream, events(3)))
            .await;
    }
    for limit in [1, 2, LIMIT] {
        let forward =
            store.rows(StreamQuery::forward(&stream("s")).limit(limit)).all().await.unwrap();
        assert_eq!(forward.iter().map(|event| event.version.get()).collect::<Vec<_>>(), [1, 2, 3]);
        let backward =
            store.rows(StreamQuery::backward(&stream("s")).limit(limit)).all().await.unwrap();
        assert_eq!(backward.iter().map(|event| event.version.get()).collect::<Vec<_>>(), [3, 2, 1]);
        let feed = store.rows(FeedQuery::after(Position::START).limit(limit)).all().await.unwrap();
        assert_eq!(feed.len(), 9);
        let heads = HeadQuery::Prefix { prefix: String::new(), after: None, limit };
        assert_eq!(store.rows(heads).all().await.unwrap().len(), 3);
        let last = &feed[8];
        assert_eq!(store.event_at(last.position).await.unwrap().as_ref(), Some(last));
        assert_eq!(store.event(&last.stream, last.version).await.unwrap().as_ref(), Some(last));
        assert_eq!(store.event(&last.stream, last.version.plus(1)).await.unwrap(), None);
        assert_eq!(store.head(&last.stream).await.unwrap().last.as_ref(), Some(last));
    }
}

async fn so_many_keys_can_be_read_at_once_and_no_more(world: World) {
    let keys: Vec<_> = (0..=LIMIT).map(|number| key(&number.to_string())).collect();
    assert_eq!(world.store.get(&keys[1..]).await.unwrap().len(), LIMIT);
    assert_over(&world.store.get(&keys).await.unwrap_err(), LIMIT);
}

async fn so_many_heads_can_be_asked_for_by_name_and_no_more(world: World) {
    let named =
        |count| HeadQuery::Named((0..count).map(|number| stream(&format!("{number}"))).collect());
    assert_eq!(world.store.heads(named(LIMIT)).await.unwrap().heads.len(), LIMIT);
    assert_over(&world.store.heads(named(LIMIT + 1)).await.unwrap_err(), LIMIT);
}

async fn a_filter_of_the_feed_can_name_so_much_and_no_more(world: World) {
    let types = |count| {
        let types = (0..count).map(|number| EventType::new(format!("type {number}")).unwrap());
        FeedQuery::after(Position::START).types(types)
    };
    assert!(world.store.read_feed(types(LIMIT)).await.is_ok());
    assert_over(&world.store.read_feed(types(LIMIT + 1)).await.unwrap_err(), LIMIT);
    let with_metadata = types(LIMIT).metadata("who", "anna");
    assert_over(&world.store.read_feed(with_metadata).await.unwrap_err(), LIMIT);
}

fn keys(count: usize) -> ItemFilter {
    let names = (0..count).map(|number| format!("{number}")).collect();
    ItemFilter::queue("q").key(NamePattern::OneOf(names))
}

fn urgent() -> Adjustment {
    Adjustment::Prioritize { priority: Priority::new(9).unwrap() }
}

async fn a_filter_of_items_can_name_so_many_and_no_more(world: World) {
    let store = &*world.store;
    wake(store, "7", 1).await;
    let before = everything(store).await;
    assert_over(&store.adjust(keys(LIMIT + 1), urgent()).await.unwrap_err(), LIMIT);
    assert_over(&store.items(ItemQuery::new(keys(LIMIT + 1))).await.unwrap_err(), LIMIT);
    assert_eq!(everything(store).await, before);

    assert_eq!(store.items(ItemQuery::new(keys(LIMIT))).await.unwrap().items, before.items);
    assert_eq!(store.adjust(keys(LIMIT), urgent()).await.unwrap().changed, 1);
}

async fn a_pattern_has_the_limit_of_the_names_it_matches(world: World) {
    let store = &*world.store;
    let long = "k".repeat(limits::ITEM_KEY_BYTES);
    commit(store, Commit::new().wake(Wake::to_mark(item(&long), mark(1)))).await;
    let of_keys = |pattern: String| ItemFilter::queue("q").key(NamePattern::like(pattern));
    let of_queues =
        |pattern: String| ItemFilter { queue: NamePattern::like(pattern), ..ItemFilter::default() };

    assert_eq!(store.items(ItemQuery::new(of_keys(long.clone()))).await.unwrap().items.len(), 1);
    let error = store.items(ItemQuery::new(of_keys(long + "*"))).await.unwrap_err();
    assert_over(&error, limits::ITEM_KEY_BYTES);
    let error = store
        .adjust(of_queues("q".repeat(limits::QUEUE_NAME_BYTES + 1)), urgent())
        .await
        .unwrap_err();
    assert_over(&error, limits::QUEUE_NAME_BYTES);
    assert!(
        store.items(ItemQuery::new(of_queues("q".repeat(limits::QUEUE_NAME_BYTES)))).await.is_ok()
    );
}
