//! Stream heads: summaries without reading the events.

use tidelock_store::{
    AfterTrim, Append, Commit, ExpectedVersion, Head, HeadPage, HeadQuery, Store, StoreExt,
    StreamName, StreamState,
};

use crate::case::{World, cases};
use crate::sample::{commit, events, exact, stream, version};

cases! { "log::heads":
    "LOG-8" heads_by_name_come_in_the_order_asked_for,
    "LOG-8" a_head_tells_version_count_and_last_event,
    "LOG-8 LOG-9" a_head_after_trims_tells_what_is_left,
    "LOG-6" heads_by_prefix_come_by_name,
    "LOG-6" a_prefix_of_heads_is_taken_to_the_letter,
    "LOG-6" pages_of_heads_of_any_size_miss_and_repeat_nothing,
    "LOG-6" heads_after_a_name_that_is_no_stream_go_on_from_there,
}

async fn append(store: &dyn Store, name: &str, count: u64) {
    commit(store, Commit::new().append(&stream(name), ExpectedVersion::Any, events(count))).await;
}

async fn head(store: &dyn Store, name: &str) -> Head {
    let mut page = store.heads(HeadQuery::Named(vec![stream(name)])).await.unwrap();
    page.heads.pop().unwrap()
}

async fn names(store: &dyn Store, prefix: &str) -> Vec<String> {
    let page = store.heads(HeadQuery::prefix(prefix)).await.unwrap();
    assert_eq!(page.next, None);
    page.heads.iter().map(|head| head.stream.to_string()).collect()
}

async fn page(
    store: &dyn Store,
    prefix: &str,
    after: Option<StreamName>,
    limit: usize,
) -> HeadPage {
    store.heads(HeadQuery::Prefix { prefix: prefix.into(), after, limit }).await.unwrap()
}

async fn all_pages(store: &dyn Store, prefix: &str, size: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = page(store, prefix, after.clone(), size).await;
        assert!(page.heads.len() <= size);
        found.extend(page.heads.iter().map(|head| head.stream.to_string()));
        let Some(next) = page.next else { return found };
        assert!(after.is_none_or(|after| after < next), "each page gets further");
        after = Some(next);
    }
}

async fn heads_by_name_come_in_the_order_asked_for(world: World) {
    let store = &*world.store;
    append(store, "a", 1).await;
    append(store, "b", 2).await;
    let query = HeadQuery::Named(["b", "none", "a", "b"].map(stream).to_vec());
    let page = store.heads(query).await.unwrap();

    let nothing = Head { stream: stream("none"), state: StreamState::Absent, count: 0, last: None };
    let (a, b) = (head(store, "a").await, head(store, "b").await);
    assert_eq!(page, HeadPage { heads: vec![b.clone(), nothing, a, b], next: None });
    let none = store.heads(HeadQuery::Named(vec![])).await.unwrap();
    assert_eq!(none, HeadPage { heads: vec![], next: None });
}

async fn a_head_tells_version_count_and_last_event(world: World) {
    let store = &*world.store;
    append(store, "s", 3).await;
    let last = store.read_whole_stream(&stream("s")).await.unwrap().pop();
    let open = Head { stream: stream("s"), state: StreamState::Open(version(3)), count: 3, last };
    assert_eq!(head(store, "s").await, open);

    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(3)))).await;
    assert_eq!(head(store, "s").await, Head { state: StreamState::Closed(version(3)), ..open });
}

async fn a_head_after_trims_tells_what_is_left(world: World) {
    let store = &*world.store;
    append(store, "s", 3).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(3)))).await;
    let whole = head(store, "s").await;

    commit(store, Commit::new().trim(&stream("s"), version(2), AfterTrim::StayClosed)).await;
    assert_eq!(head(store, "s").await, Head { count: 1, ..whole.clone() });

    commit(store, Commit::new().trim(&stream("s"), version(3), AfterTrim::Reopen)).await;
    let emptied = Head { state: StreamState::Open(version(3)), count: 0, last: None, ..whole };
    assert_eq!(head(store, "s").await, emptied);
    assert_eq!(page(store, "", None, 9).await.heads, [emptied], "it is still a stream");

    append(store, "s", 1).await;
    let last = store.read_whole_stream(&stream("s")).await.unwrap().pop();
    let state = StreamState::Open(version(4));
    assert_eq!(head(store, "s").await, Head { stream: stream("s"), state, count: 1, last });
}

async fn heads_by_prefix_come_by_name(world: World) {
    let store = &*world.store;
    for name in ["b", "é", "B", "a-2", "a", "a-10", "🦀", "a/1"] {
        append(store, name, 1).await;
    }
    assert_eq!(names(store, "").await, ["B", "a", "a-10", "a-2", "a/1", "b", "é", "🦀"]);
    assert_eq!(names(store, "a").await, ["a", "a-10", "a-2", "a/1"]);
    assert_eq!(names(store, "a-").await, ["a-10", "a-2"]);
    let by_prefix = page(store, "b", None, 9).await.heads;
    assert_eq!(by_prefix, [head(store, "b").await], "a head is the same however it was asked for");
}

async fn a_prefix_of_heads_is_taken_to_the_letter(world: World) {
    let store = &*world.store;
    for name in ["a_1", "a%1", "aX1", "a*1", "A_1"] {
        append(store, name, 1).await;
    }
    for (prefix, name) in [("a_", "a_1"), ("a%", "a%1"), ("a*", "a*1"), ("A", "A_1")] {
        assert_eq!(names(store, prefix).await, [name]);
    }
    assert!(names(store, "b").await.is_empty());
}

async fn pages_of_heads_of_any_size_miss_and_repeat_nothing(world: World) {
    let store = &*world.store;
    for name in ["a", "s-1", "s-2", "s-3", "s-4", "s-5", "t"] {
        append(store, name, 1).await;
    }
    for size in 1..=6 {
        let found = all_pages(store, "s-", size).await;
        assert_eq!(found, ["s-1", "s-2", "s-3", "s-4", "s-5"], "pages of {size}");
    }
}

async fn heads_after_a_name_that_is_no_stream_go_on_from_there(world: World) {
    let store = &*world.store;
    for name in ["a", "s-1", "s-3", "t"] {
        append(store, name, 1).await;
    }
    for (after, expected) in
        [("a", &["s-1", "s-3"][..]), ("s-2", &["s-3"]), ("s-3", &[]), ("z", &[])]
    {
        let heads = page(store, "s-", Some(stream(after)), 9).await.heads;
        let found: Vec<_> = heads.iter().map(|head| head.stream.as_str()).collect();
        assert_eq!(found, expected, "after {after:?}");
    }
}
