//! Edits: changes inside a document that the store makes.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock_store::{
    Commit, Edit, ExpectedRevision, Part, RawJson, RecordWrite, Slot, Store, StoreErrorKind,
    StoreExt, ViolationKind, ViolationReason, When, Written, limits,
};
use tokio::task::JoinSet;

use crate::case::{World, cases};
use crate::sample::{commit, failed, key, refused_whole, revision, violation};

cases! { "records::edit":
    "REC-8" a_missing_document_begins_empty,
    "REC-8" each_edit_changes_its_place_and_nothing_else,
    "REC-8" an_edit_without_effect_writes_nothing,
    "REC-8" an_edit_that_does_not_fit_is_refused,
    "REC-8" a_document_that_would_be_too_large_or_too_deep_is_refused,
    "REC-8 REC-1" an_expectation_comes_before_the_edit,
    "REC-8 REC-5" an_edit_keeps_the_expiry_or_sets_another,
    "REC-8" writers_that_edit_at_once_lose_nothing,
    "REC-8" a_path_that_is_too_deep_is_invalid,
}

fn raw(value: &Value) -> RawJson {
    RawJson::new(value).unwrap()
}

fn increment(at: &str, by: i64) -> Edit {
    Edit::Increment { at: at.to_owned(), by }
}

fn push(at: &str, item: &Value) -> Edit {
    Edit::Push { at: at.to_owned(), item: raw(item) }
}

fn set_entry(at: &str, key: &str, value: &Value) -> Edit {
    Edit::SetEntry { at: at.to_owned(), key: key.to_owned(), value: raw(value) }
}

fn remove_entry(at: &str, key: &str) -> Edit {
    Edit::RemoveEntry { at: at.to_owned(), key: key.to_owned() }
}

/// Edits the record "d".
fn edit(edit: Edit) -> Commit {
    Commit::new().write(RecordWrite::edit(&key("d"), ExpectedRevision::Any, edit))
}

/// Makes the edit, and returns what it gives.
async fn edited(store: &dyn Store, one: Edit) -> i64 {
    commit(store, edit(one)).await.writes[0].sum.unwrap()
}

async fn put(store: &dyn Store, document: &Value) {
    let write = RecordWrite::put(&key("d"), ExpectedRevision::Any, raw(document));
    commit(store, Commit::new().write(write)).await;
}

async fn document(store: &dyn Store) -> Value {
    let record = store.get_one(&key("d")).await.unwrap().into_live().unwrap();
    record.value.to().unwrap()
}

/// An edit that does not fit: nothing changes.
async fn unfit(store: &dyn Store, one: Edit, why: &str) {
    let before = store.get_one(&key("d")).await.unwrap();
    let conflict = refused_whole(store, edit(one)).await;
    assert!(conflict.has(ViolationKind::Unfit), "{conflict}");
    assert!(conflict.to_string().contains(why), "{conflict}");
    assert!(conflict.to_string().contains("\"d\""), "{conflict}");
    assert_eq!(conflict.first().part, Part::Write(0));
    assert_eq!(store.get_one(&key("d")).await.unwrap(), before);
}

async fn a_missing_document_begins_empty(world: World) {
    let store = &*world.store;
    let done = commit(store, edit(increment("/visits/today", 2))).await;
    let written = Written { key: key("d"), revision: Some(revision(1)), sum: Some(2) };
    assert_eq!(done.writes, [written]);
    assert_eq!(document(store).await, json!({ "visits": { "today": 2 } }));
    let gone = RecordWrite::delete(&key("d"), ExpectedRevision::Any);
    commit(store, Commit::new().write(gone)).await;
    assert_eq!(edited(store, push("", &json!("tea"))).await, 1);
    assert_eq!(document(store).await, json!(["tea"]));
}

async fn each_edit_changes_its_place_and_nothing_else(world: World) {
    let store = &*world.store;
    put(store, &json!({ "a/b": 1, "list": [[1], 2], "flags": { "old": true }, "kept": null }))
        .await;
    assert_eq!(edited(store, increment("a/b", -3)).await, -2);
    assert_eq!(edited(store, push("/list/0", &json!({ "n": 1.5 }))).await, 2);
    assert_eq!(edited(store, push("list", &json!("x"))).await, 3);
    assert_eq!(edited(store, set_entry("flags", "new/er", &json!([]))).await, 1);
    assert_eq!(edited(store, remove_entry("/flags", "old")).await, 1);
    let patch = json!({ "kept": { "a": null, "b": 2 }, "a/b": null });
    assert_eq!(edited(store, Edit::Merge(raw(&patch))).await, 1);
    assert_eq!(
        document(store).await,
        json!({ "list": [[1, { "n": 1.5 }], 2, "x"], "flags": { "new/er": [] }, "kept": { "b": 2 } })
    );
    let record = store.get_one(&key("d")).await.unwrap();
    assert_eq!(record.revision(), Some(revision(7)));
}

async fn an_edit_without_effect_writes_nothing(world: World) {
    let store = &*world.store;
    let nothing = commit(store, edit(remove_entry("", "a"))).await;
    assert_eq!(nothing.writes, [Written { key: key("d"), revision: None, sum: Some(0) }]);
    assert_eq!(store.get_one(&key("d")).await.unwrap(), Slot::Absent);
    put(store, &json!({ "a": { "b": 1 } })).await;
    let without_effect = [
        (set_entry("a", "b", &json!(1)), 0),
        (remove_entry("/no/where", "a"), 0),
        (Edit::Merge(raw(&json!({ "a": { "b": 1 }, "c": null }))), 0),
        (increment("/a/b", 0), 1),
    ];
    for (one, gives) in without_effect {
        let written = Written { key: key("d"), revision: Some(revision(1)), sum: Some(gives) };
        assert_eq!(commit(store, edit(one)).await.writes, [written]);
    }
    let record = store.get_one(&key("d")).await.unwrap();
    assert_eq!(record.revision(), Some(revision(1)));
}

async fn an_edit_that_does_not_fit_is_refused(world: World) {
    let store = &*world.store;
    put(store, &json!({ "name": "ada", "list": [1], "most": i64::MAX, "half": 0.5 })).await;
    unfit(store, increment("name", 1), "\"name\": there is a text where an integer").await;
    unfit(store, increment("half", 1), "an integer").await;
    unfit(store, increment("most", 1), "64 bits").await;
    unfit(store, push("name", &json!(1)), "a list").await;
    unfit(store, set_entry("name", "a", &json!(1)), "an object").await;
    unfit(store, remove_entry("list", "0"), "an object").await;
    unfit(store, increment("/list/1", 1), "no item").await;
    unfit(store, increment("/name/length", 1), "an object").await;
}

async fn a_document_that_would_be_too_large_or_too_deep_is_refused(world: World) {
    let store = &*world.store;
    let half = json!("x".repeat(limits::VALUE_BYTES / 2));
    assert_eq!(edited(store, set_entry("", "a", &half)).await, 1);
    unfit(store, set_entry("", "b", &half), "bytes").await;
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let levels = limits::JSON_DEPTH - 2;
    assert_eq!(edited(store, set_entry("", "a", &deep(levels))).await, 1);
    unfit(store, set_entry("/b/c/d", "e", &deep(levels)), "deep").await;
}

async fn an_expectation_comes_before_the_edit(world: World) {
    let store = &*world.store;
    put(store, &json!("text")).await;
    let found = store.get_one(&key("d")).await.unwrap();
    for expected in [ExpectedRevision::Absent, ExpectedRevision::Revision(revision(2))] {
        let write = RecordWrite::edit(&key("d"), expected, increment("", 1));
        let reason = ViolationReason::Record { key: key("d"), expected, found: found.clone() };
        let conflict = refused_whole(store, Commit::new().write(write)).await;
        assert_eq!(conflict, violation(Part::Write(0), reason));
    }
}

async fn an_edit_keeps_the_expiry_or_sets_another(world: World) {
    let store = &*world.store;
    let minute = Duration::from_secs(60);
    let expiring = |after| {
        let write = RecordWrite::edit(&key("d"), ExpectedRevision::Any, increment("n", 1));
        Commit::new().write(write.expiring(When::In(after)))
    };
    let expires_at = async || store.get_one(&key("d")).await.unwrap().live().unwrap().expires_at;
    let first = commit(store, expiring(minute)).await.at;
    assert_eq!(expires_at().await, Some(first.plus(minute)));
    world.advance(minute / 2).await;
    commit(store, edit(increment("n", 1))).await;
    assert_eq!(expires_at().await, Some(first.plus(minute)));
    let third = commit(store, expiring(minute)).await.at;
    assert_eq!(expires_at().await, Some(third.plus(minute)));
    world.advance(minute).await;
    assert_eq!(edited(store, increment("n", 1)).await, 1, "it has expired");
    assert_eq!(expires_at().await, None);
}

async fn writers_that_edit_at_once_lose_nothing(world: World) {
    let mut writers = JoinSet::new();
    for nth in 0..40 {
        let store = world.nth(nth % 4).await;
        let one = match nth % 2 {
            0 => increment("/count", 1),
            _ => push("/names", &json!(nth)),
        };
        writers.spawn(async move { edited(&*store, one).await });
    }
    let mut given = writers.join_all().await;
    given.sort_unstable();
    assert_eq!(given, (1..=20).flat_map(|nth| [nth, nth]).collect::<Vec<_>>());
    let mut document = document(&*world.store).await;
    let names = document["names"].as_array_mut().unwrap();
    names.sort_by_key(Value::as_i64);
    assert_eq!(*names, (0..20).map(|nth| json!(2 * nth + 1)).collect::<Vec<_>>());
    assert_eq!(document["count"], 20);
}

async fn a_path_that_is_too_deep_is_invalid(world: World) {
    let deep = "/a".repeat(limits::JSON_DEPTH + 1);
    let error = failed(&*world.store, edit(increment(&deep, 1))).await;
    assert_eq!(error.kind(), StoreErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("levels"), "{error}");
}
