//! Revisions: they count through every write, deletion and expiry, and never go back.

use std::time::Duration;

use tidelock_store::{
    Bounds, Commit, ExpectedRevision, Part, Record, RecordWrite, Slot, Store, StoreExt,
    ViolationKind, ViolationReason, When, Written,
};

use crate::case::{World, cases};
use crate::sample::{commit, everything, json, key, refused_whole, revision, value, violation};

cases! { "records::revision":
    "REC-2" the_first_revision_is_1_and_each_write_counts,
    "REC-2" a_deletion_counts,
    "REC-2 REC-3" taking_nothing_away_changes_nothing,
    "REC-2" a_record_written_again_goes_on_counting,
    "REC-2 REC-5" an_expiry_does_not_count_and_the_next_write_goes_on,
    "REC-2" an_addition_counts_like_a_put,
    "REC-1 REC-2" a_record_deleted_and_made_again_is_not_the_one_that_was_read,
    "REC-2" a_refused_write_does_not_count,
    "REC-3" an_empty_value_is_a_value,
    "REC-3" a_value_is_kept_to_the_letter,
    "REC-2" one_commit_writes_several_records_in_its_order,
}

/// Applies this to the record "k".
async fn write(store: &dyn Store, write: RecordWrite) -> Written {
    commit(store, Commit::new().write(write)).await.writes.pop().unwrap()
}

fn put(number: i64) -> RecordWrite {
    RecordWrite::put(&key("k"), ExpectedRevision::Any, value(number))
}

fn delete() -> RecordWrite {
    RecordWrite::delete(&key("k"), ExpectedRevision::Any)
}

fn written(number: u64) -> Written {
    Written { key: key("k"), revision: Some(revision(number)), sum: None }
}

async fn found(store: &dyn Store) -> Slot {
    store.get_one(&key("k")).await.unwrap()
}

fn live(number: u64, value: i64) -> Slot {
    Slot::Live(Record {
        key: key("k"),
        revision: revision(number),
        value: crate::sample::value(value),
        expires_at: None,
    })
}

async fn the_first_revision_is_1_and_each_write_counts(world: World) {
    let store = &*world.store;
    assert_eq!(found(store).await, Slot::Absent);
    for number in 1..=3 {
        assert_eq!(
            write(store, put(7)).await,
            written(number),
            "the same value again is a write too"
        );
        assert_eq!(found(store).await, live(number, 7));
    }
}

async fn a_deletion_counts(world: World) {
    let store = &*world.store;
    write(store, put(7)).await;
    assert_eq!(write(store, delete()).await, written(2));
    assert_eq!(found(store).await, Slot::Deleted(revision(2)));
}

async fn taking_nothing_away_changes_nothing(world: World) {
    let store = &*world.store;
    let nothing = Written { key: key("k"), revision: None, sum: None };
    assert_eq!(write(store, delete()).await, nothing);
    assert_eq!(found(store).await, Slot::Absent, "absent and deleted are two things");

    write(store, put(7)).await;
    for _ in 0..3 {
        assert_eq!(write(store, delete()).await, written(2));
        assert_eq!(found(store).await, Slot::Deleted(revision(2)));
    }
}

async fn a_record_written_again_goes_on_counting(world: World) {
    let store = &*world.store;
    for round in 0..3 {
        assert_eq!(write(store, put(round)).await, written(2 * round as u64 + 1));
        assert_eq!(write(store, delete()).await, written(2 * round as u64 + 2));
    }
}

async fn an_expiry_does_not_count_and_the_next_write_goes_on(world: World) {
    let store = &*world.store;
    write(store, put(1).expiring(When::In(Duration::from_secs(5)))).await;
    world.advance(Duration::from_secs(5)).await;
    assert_eq!(found(store).await, Slot::Deleted(revision(1)));
    assert_eq!(write(store, delete()).await, written(1), "it is gone already");
    assert_eq!(write(store, put(2)).await, written(2));
    assert_eq!(found(store).await, live(2, 2));
}

async fn an_addition_counts_like_a_put(world: World) {
    let store = &*world.store;
    write(store, put(7)).await;
    let added = write(store, RecordWrite::add(&key("k"), 0, Bounds::NONE)).await;
    assert_eq!(added, Written { sum: Some(7), ..written(2) });
    assert_eq!(found(store).await, live(2, 7));
}

/// Schedule 55.
async fn a_record_deleted_and_made_again_is_not_the_one_that_was_read(world: World) {
    let (store, other) = (&*world.store, world.another().await);
    write(store, put(7)).await;
    let read = found(store).await.revision().unwrap();

    write(&*other, delete()).await;
    write(&*other, put(7)).await;

    let expected = ExpectedRevision::Revision(read);
    let stale = Commit::new().write(RecordWrite::put(&key("k"), expected, value(8)));
    let conflict = refused_whole(store, stale).await;
    let reason = ViolationReason::Record { key: key("k"), expected, found: live(3, 7) };
    assert_eq!(conflict, violation(Part::Write(0), reason));
    assert!(conflict.has(ViolationKind::Moved));
}

async fn a_refused_write_does_not_count(world: World) {
    let store = &*world.store;
    write(store, put(7)).await;
    for _ in 0..3 {
        let refused = RecordWrite::put(&key("k"), ExpectedRevision::Absent, value(8));
        refused_whole(store, Commit::new().write(refused)).await;
    }
    assert_eq!(write(store, put(8)).await, written(2));
}

async fn an_empty_value_is_a_value(world: World) {
    let store = &*world.store;
    for (number, text) in (1..).zip(["\"\"", "null", "{}", "[]", "false", "0"]) {
        write(store, RecordWrite::put(&key("k"), ExpectedRevision::Any, json(text))).await;
        let (value, revision) = (json(text), revision(number));
        let there = Record { key: key("k"), revision, value, expires_at: None };
        assert_eq!(found(store).await, Slot::Live(there.clone()));
        assert_eq!(everything(store).await.records, [there], "a scan shows it too");
        let taken = Commit::new().guard_record(&key("k"), ExpectedRevision::Exists);
        commit(store, taken).await;
    }
}

async fn a_value_is_kept_to_the_letter(world: World) {
    let store = &*world.store;
    let text = "{ \"b\": 1.50, \"a\": [ ],\n \"ü\": \"\\u00fc \\\" ' 🦀\", \"big\": 12345678901234567890 }";
    write(store, RecordWrite::put(&key("k"), ExpectedRevision::Absent, json(text))).await;
    let found = world.another().await.get_one(&key("k")).await.unwrap();
    assert_eq!(found.live().unwrap().value.as_str(), text);
}

async fn one_commit_writes_several_records_in_its_order(world: World) {
    let store = &*world.store;
    write(store, put(7)).await;
    let several = Commit::new()
        .write(RecordWrite::add(&key("n"), 5, Bounds::NONE))
        .write(delete())
        .write(RecordWrite::put(&key("a"), ExpectedRevision::Absent, value(1)));
    let done = commit(store, several).await;
    let first = Some(revision(1));
    assert_eq!(
        done.writes,
        [
            Written { key: key("n"), revision: first, sum: Some(5) },
            written(2),
            Written { key: key("a"), revision: first, sum: None },
        ]
    );
}
