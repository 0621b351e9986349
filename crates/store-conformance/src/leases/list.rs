//! Listing items: in order, page by page, by filter, without leasing.

use tidelock_store::{
    Adjusted, Adjustment, Commit, Item, ItemFilter, ItemQuery, ItemRef, NamePattern, Settlement,
    Store, StoreExt, Wake, limits,
};

use crate::case::{World, cases};
use crate::items::{items, leased, secs, settle};
use crate::sample::{LEASE, commit, item, lane, lease, mark, wake};

cases! { "leases::list":
    "LEASE-10" items_are_listed_by_queue_and_key,
    "LEASE-10" pages_miss_nothing_and_repeat_nothing,
    "LEASE-10" pages_of_a_filter_miss_nothing_and_repeat_nothing,
    "LEASE-10" a_page_goes_on_after_an_item_that_is_not_there,
    "LEASE-10" queues_are_chosen_by_name_and_by_pattern,
    "LEASE-10" keys_are_chosen_by_name_and_by_pattern,
    "LEASE-10" items_are_chosen_by_lane,
    "LEASE-10" items_are_chosen_by_whether_they_are_blocked,
    "LEASE-10" items_are_chosen_by_whether_they_are_held_expired_or_not,
    "LEASE-10" an_item_must_pass_every_part_of_a_filter,
    "LEASE-10 LEASE-3" listing_takes_nothing,
    "LEASE-10 READ-1" an_item_is_found_by_name_whatever_its_neighbours_are,
}

async fn wake_all(store: &dyn Store, names: &[(&str, &str)]) {
    for (queue, key) in names {
        let item = ItemRef::parse(queue, key).unwrap();
        commit(store, Commit::new().wake(Wake::to_mark(item, mark(1)))).await;
    }
}

fn names(items: &[Item]) -> Vec<(&str, &str)> {
    items.iter().map(|item| (item.item.queue.as_str(), item.item.key.as_str())).collect()
}

/// Asserts which items pass the filter.
async fn passes(world: &World, filter: ItemFilter, expected: &[(&str, &str)]) {
    assert_eq!(names(&items(&*world.store, filter.clone()).await), expected, "{filter:?}");
}

fn queue_like(pattern: &str) -> ItemFilter {
    ItemFilter { queue: NamePattern::like(pattern), ..ItemFilter::default() }
}

async fn items_are_listed_by_queue_and_key(world: World) {
    wake_all(&*world.store, &[("r", "a"), ("q", "b"), ("q", "a"), ("q-2", "c"), ("q", "B")]).await;
    let expected = [("q", "B"), ("q", "a"), ("q", "b"), ("q-2", "c"), ("r", "a")];
    passes(&world, ItemFilter::default(), &expected).await;
}

/// All pages of a query, one after the other.
async fn pages(world: &World, filter: ItemFilter, limit: usize) -> Vec<Item> {
    let mut query = ItemQuery::new(filter).limit(limit);
    let mut all = Vec::new();
    for _ in 0..100 {
        let page = world.store.items(query.clone()).await.unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items);
        let Some(next) = page.next else { return all };
        query = query.after(next);
    }
    panic!("the pages do not end");
}

async fn pages_miss_nothing_and_repeat_nothing(world: World) {
    for (queue, count) in [("p", 3), ("q", 5), ("r", 4)] {
        for nth in 0..count {
            wake_all(&*world.store, &[(queue, &format!("key-{nth}"))]).await;
        }
    }
    let all = items(&*world.store, ItemFilter::default()).await;
    assert_eq!(all.len(), 12);
    for limit in [1, 2, 3, 4, 5, 12, 13] {
        assert_eq!(pages(&world, ItemFilter::default(), limit).await, all, "pages of {limit}");
    }
}

async fn pages_of_a_filter_miss_nothing_and_repeat_nothing(world: World) {
    for nth in 0..12 {
        wake_all(&*world.store, &[("q", &format!("{}-{nth:02}", ["odd", "even"][nth % 2]))]).await;
    }
    let odd = ItemFilter::queue("q").key(NamePattern::like("odd-*"));
    let all = items(&*world.store, odd.clone()).await;
    assert_eq!(all.len(), 6);
    for limit in [1, 2, 4, 6, 7] {
        assert_eq!(pages(&world, odd.clone(), limit).await, all, "pages of {limit}");
    }
}

async fn a_page_goes_on_after_an_item_that_is_not_there(world: World) {
    wake_all(&*world.store, &[("q", "a"), ("q", "c"), ("s", "a")]).await;
    for (queue, key, expected) in
        [("q", "b", 2), ("q", "z", 1), ("r", "a", 1), ("a", "a", 3), ("z", "a", 0)]
    {
        let after = ItemRef::parse(queue, key).unwrap();
        let page =
            world.store.items(ItemQuery::new(ItemFilter::default()).after(after)).await.unwrap();
        assert_eq!(page.items.len(), expected, "after {key} of {queue}");
    }
}

async fn queues_are_chosen_by_name_and_by_pattern(world: World) {
    wake_all(
        &*world.store,
        &[("mail", "a"), ("mail-in", "a"), ("mail-out", "a"), ("web-out", "a")],
    )
    .await;
    passes(&world, ItemFilter::queue("mail"), &[("mail", "a")]).await;
    passes(&world, ItemFilter::queue("mai"), &[]).await;
    let mails = [("mail", "a"), ("mail-in", "a"), ("mail-out", "a")];
    passes(&world, queue_like("mail*"), &mails).await;
    passes(&world, queue_like("*-out"), &[("mail-out", "a"), ("web-out", "a")]).await;
    passes(&world, queue_like("m*-?n"), &[("mail-in", "a")]).await;
    let two = NamePattern::OneOf(vec!["web-out".into(), "mail".into(), "none".into()]);
    let two = ItemFilter { queue: two, ..ItemFilter::default() };
    passes(&world, two, &[("mail", "a"), ("web-out", "a")]).await;
    passes(&world, ItemFilter { queue: NamePattern::OneOf(vec![]), ..ItemFilter::default() }, &[])
        .await;
}

async fn keys_are_chosen_by_name_and_by_pattern(world: World) {
    let all = [("q", "50%_[x]"), ("q", "a"), ("q", "a\\b"), ("q", "ab"), ("q", "abc"), ("q", "é1")];
    wake_all(&*world.store, &all).await;
    let key = |pattern: &str| ItemFilter::queue("q").key(NamePattern::like(pattern));
    passes(&world, key("*"), &all).await;
    passes(&world, key("a?"), &[("q", "ab")]).await;
    passes(&world, key("?b*"), &[("q", "ab"), ("q", "abc")]).await;
    passes(&world, key("??"), &[("q", "ab"), ("q", "é1")]).await;
    passes(&world, key("a"), &[("q", "a")]).await;
    passes(&world, key("A*"), &[]).await;
    // Characters with a meaning in a database have none here.
    passes(&world, key("%"), &[]).await;
    passes(&world, key("a_"), &[]).await;
    passes(&world, key("a[b]"), &[]).await;
    passes(&world, key("50%_[x]"), &[("q", "50%_[x]")]).await;
    passes(&world, key("a\\*"), &[("q", "a\\b")]).await;
    let one = ItemFilter::queue("q").key(NamePattern::is("a*"));
    passes(&world, one, &[]).await;
}

async fn items_are_chosen_by_lane(world: World) {
    wake(&*world.store, "a", 1).await;
    let slow = Wake::to_mark(item("b"), mark(1)).in_lane(lane("slow"));
    commit(&*world.store, Commit::new().wake(slow)).await;
    passes(&world, ItemFilter::default().lane(lane("slow")), &[("q", "b")]).await;
    passes(&world, ItemFilter::default().lane(lane("default")), &[("q", "a")]).await;
    passes(&world, ItemFilter::default().lane(lane("none")), &[]).await;
}

async fn items_are_chosen_by_whether_they_are_blocked(world: World) {
    let blocked = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::block(blocked.token(), "no hope")).await;
    wake(&*world.store, "b", 1).await;
    passes(&world, ItemFilter::default().blocked(true), &[("q", "a")]).await;
    passes(&world, ItemFilter::default().blocked(false), &[("q", "b")]).await;
}

async fn items_are_chosen_by_whether_they_are_held_expired_or_not(world: World) {
    leased(&*world.store, "a", 1).await;
    world.advance(LEASE + secs(1)).await;
    wake(&*world.store, "b", 1).await;
    passes(&world, ItemFilter::default().held(true), &[("q", "a")]).await;
    passes(&world, ItemFilter::default().held(false), &[("q", "b")]).await;
}

async fn an_item_must_pass_every_part_of_a_filter(world: World) {
    for key in ["a-1", "a-2", "b-1"] {
        leased(&*world.store, key, 1).await;
    }
    wake_all(&*world.store, &[("q", "a-3"), ("r", "a-1")]).await;
    let filter = ItemFilter::queue("q").key(NamePattern::like("a-*")).held(true).blocked(false);
    passes(&world, filter.clone(), &[("q", "a-1"), ("q", "a-2")]).await;
    passes(&world, filter.lane(lane("slow")), &[]).await;
}

async fn listing_takes_nothing(world: World) {
    wake_all(&*world.store, &[("q", "a"), ("q", "b")]).await;
    let first = items(&*world.store, ItemFilter::default()).await;
    assert_eq!(items(&*world.another().await, ItemFilter::default()).await, first);
    assert_eq!(lease(&*world.store, "w", 10).await.len(), 2);
}

/// One item in a queue with more neighbors on either side than one call scans.
async fn an_item_is_found_by_name_whatever_its_neighbours_are(world: World) {
    let neighbours = limits::FEED_SCAN + 1;
    for first in (0..neighbours).step_by(limits::PARTS_PER_COMMIT) {
        let some = first..neighbours.min(first + limits::PARTS_PER_COMMIT);
        let wakes = some.map(|nth| Wake::to_mark(item(&format!("a-{nth:05}")), mark(1)));
        commit(&*world.store, wakes.fold(Commit::new(), Commit::wake)).await;
    }
    wake_all(&*world.store, &[("q", "b")]).await;
    for name in ["a-00000", "a-10000", "b"] {
        let found = world.store.item(&item(name)).await.unwrap().map(|found| found.item);
        assert_eq!(found, Some(item(name)));
    }
    assert_eq!(world.store.item(&item("c")).await.unwrap(), None);
    assert_eq!(world.store.item(&ItemRef::parse("r", "b").unwrap()).await.unwrap(), None);
    // The other parts of the filter count, and so does the item to continue after.
    let b = || ItemFilter::queue("q").key(NamePattern::is("b"));
    let page = async |query| world.store.items(query).await.unwrap();
    for (query, there) in [
        (ItemQuery::new(b()), 1),
        (ItemQuery::new(b().blocked(false).held(false)), 1),
        (ItemQuery::new(b().blocked(true)), 0),
        (ItemQuery::new(b().lane(lane("slow"))), 0),
        (ItemQuery::new(b()).after(item("a-99999")), 1),
        (ItemQuery::new(b()).after(item("b")), 0),
        (ItemQuery::new(ItemFilter::queue("q").key(NamePattern::is(""))), 0),
    ] {
        let page = page(query.clone()).await;
        assert_eq!((page.items.len(), page.next), (there, None), "{query:?}");
    }
    let adjusted = world.store.adjust(b(), Adjustment::Move { lane: lane("slow") }).await.unwrap();
    assert_eq!(adjusted, Adjusted { matched: 1, changed: 1 });
}
