//! Record reads: several at one moment, and by prefix.

use std::time::Duration;

use tidelock_store::{
    Commit, ExpectedRevision, Record, RecordPage, RecordQuery, RecordWrite, Slot, Store, When,
};

use crate::case::{World, cases};
use crate::sample::{commit, key, revision, value};

cases! { "records::read":
    "REC-3 REC-6" several_keys_are_read_in_the_order_asked_for,
    "REC-6" reading_no_keys_gives_nothing,
    "REC-6" a_key_asked_for_twice_is_told_twice,
    "REC-6" keys_are_apart_to_the_letter,
    "REC-6" a_scan_goes_by_key,
    "REC-6" a_prefix_of_keys_is_taken_to_the_letter,
    "REC-6" pages_of_a_scan_of_any_size_miss_and_repeat_nothing,
    "REC-5 REC-6" a_scan_leaves_out_what_is_deleted_or_expired,
    "REC-6" a_scan_goes_on_over_many_that_are_gone,
    "REC-6" a_scan_after_a_key_that_is_gone_goes_on_from_there,
    "REC-6" what_is_written_behind_a_scan_does_not_disturb_it,
}

async fn put(store: &dyn Store, names: &[&str]) {
    for name in names {
        let write = RecordWrite::put(&key(name), ExpectedRevision::Any, value(1));
        commit(store, Commit::new().write(write)).await;
    }
}

async fn delete(store: &dyn Store, name: &str) {
    commit(store, Commit::new().write(RecordWrite::delete(&key(name), ExpectedRevision::Exists)))
        .await;
}

async fn scan(store: &dyn Store, query: RecordQuery) -> RecordPage {
    store.scan(query).await.unwrap()
}

fn names(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.key.to_string()).collect()
}

async fn all_pages(store: &dyn Store, mut query: RecordQuery) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = scan(store, query.clone()).await;
        assert!(page.records.len() <= query.limit);
        found.extend(names(&page.records));
        let Some(next) = page.next else { return found };
        assert!(query.after.as_ref().is_none_or(|after| *after < next), "each page gets further");
        query.after = Some(next);
    }
}

fn live(name: &str) -> Record {
    Record { key: key(name), revision: revision(1), value: value(1), expires_at: None }
}

async fn several_keys_are_read_in_the_order_asked_for(world: World) {
    let store = &*world.store;
    put(store, &["a", "b", "c"]).await;
    delete(store, "b").await;
    let slots = store.get(&["c", "none", "b", "a"].map(key)).await.unwrap();
    assert_eq!(
        slots,
        [Slot::Live(live("c")), Slot::Absent, Slot::Deleted(revision(2)), Slot::Live(live("a"))]
    );
}

async fn reading_no_keys_gives_nothing(world: World) {
    assert_eq!(world.store.get(&[]).await.unwrap(), []);
}

async fn a_key_asked_for_twice_is_told_twice(world: World) {
    let store = &*world.store;
    put(store, &["a"]).await;
    let slots = store.get(&["a", "none", "a", "none"].map(key)).await.unwrap();
    assert_eq!(slots, [Slot::Live(live("a")), Slot::Absent, Slot::Live(live("a")), Slot::Absent]);
}

async fn keys_are_apart_to_the_letter(world: World) {
    let store = &*world.store;
    let given = ["k", "K", "k ", " k", "k%", "k_", "k'", "k\"", "k\\", "é", "e\u{301}"];
    put(store, &given).await;
    let slots = store.get(&given.map(key)).await.unwrap();
    assert_eq!(slots, given.map(|name| Slot::Live(live(name))), "none was written twice");
}

async fn a_scan_goes_by_key(world: World) {
    let store = &*world.store;
    put(store, &["b", "é", "B", "a-2", "a", "a-10", "🦀", "a/1"]).await;
    let page = scan(store, RecordQuery::prefix("")).await;
    let sorted = ["B", "a", "a-10", "a-2", "a/1", "b", "é", "🦀"];
    assert_eq!(page, RecordPage { records: sorted.map(live).to_vec(), next: None });
    let page = scan(store, RecordQuery::prefix("a-")).await;
    assert_eq!(page, RecordPage { records: vec![live("a-10"), live("a-2")], next: None });
}

async fn a_prefix_of_keys_is_taken_to_the_letter(world: World) {
    let store = &*world.store;
    put(store, &["a_1", "a%1", "aX1", "a*1", "A_1", "a\\1"]).await;
    for (prefix, name) in
        [("a_", "a_1"), ("a%", "a%1"), ("a*", "a*1"), ("A", "A_1"), ("a\\", "a\\1")]
    {
        assert_eq!(names(&scan(store, RecordQuery::prefix(prefix)).await.records), [name]);
    }
    let page = scan(store, RecordQuery::prefix("b")).await;
    assert_eq!(page, RecordPage { records: vec![], next: None });
}

async fn pages_of_a_scan_of_any_size_miss_and_repeat_nothing(world: World) {
    let store = &*world.store;
    put(store, &["a", "s-1", "s-2", "s-3", "s-4", "s-5", "t"]).await;
    for size in 1..=6 {
        let found = all_pages(store, RecordQuery::prefix("s-").limit(size)).await;
        assert_eq!(found, ["s-1", "s-2", "s-3", "s-4", "s-5"], "pages of {size}");
    }
}

async fn a_scan_leaves_out_what_is_deleted_or_expired(world: World) {
    let store = &*world.store;
    put(store, &["a", "b", "c", "d", "e"]).await;
    delete(store, "a").await;
    delete(store, "c").await;
    let expiring = RecordWrite::put(&key("e"), ExpectedRevision::Any, value(1));
    commit(store, Commit::new().write(expiring.expiring(When::In(Duration::from_secs(1))))).await;
    world.advance(Duration::from_secs(1)).await;
    for size in 1..=5 {
        assert_eq!(
            all_pages(store, RecordQuery::prefix("").limit(size)).await,
            ["b", "d"],
            "pages of {size}"
        );
    }
}

async fn a_scan_goes_on_over_many_that_are_gone(world: World) {
    let store = &*world.store;
    let keys: Vec<_> = (0..500).map(|number| key(&format!("k{number:03}"))).collect();
    let all = |change: fn(&_) -> RecordWrite| {
        keys.iter().fold(Commit::new(), |commit, key| commit.write(change(key)))
    };
    commit(store, all(|key| RecordWrite::put(key, ExpectedRevision::Absent, value(1)))).await;
    commit(store, all(|key| RecordWrite::delete(key, ExpectedRevision::Exists))).await;
    put(store, &["k250", "z"]).await;
    assert_eq!(all_pages(store, RecordQuery::prefix("").limit(1)).await, ["k250", "z"]);
}

async fn a_scan_after_a_key_that_is_gone_goes_on_from_there(world: World) {
    let store = &*world.store;
    put(store, &["a", "s-1", "s-2", "s-3", "t"]).await;
    delete(store, "s-2").await;
    for (after, expected) in [
        ("a", &["s-1", "s-3"][..]),
        ("s-2", &["s-3"]),
        ("s-25", &["s-3"]),
        ("s-3", &[]),
        ("z", &[]),
    ] {
        let page = scan(store, RecordQuery::prefix("s-").after(key(after))).await;
        assert_eq!(names(&page.records), expected, "after {after:?}");
    }
}

async fn what_is_written_behind_a_scan_does_not_disturb_it(world: World) {
    let store = &*world.store;
    put(store, &["b", "c", "d", "e"]).await;
    let first = scan(store, RecordQuery::prefix("").limit(2)).await;
    assert_eq!(names(&first.records), ["b", "c"]);
    put(&*world.another().await, &["a", "b"]).await;
    delete(store, "c").await;
    let rest = scan(store, RecordQuery::prefix("").after(first.next.unwrap())).await;
    assert_eq!(rest, RecordPage { records: vec![live("d"), live("e")], next: None });
}
