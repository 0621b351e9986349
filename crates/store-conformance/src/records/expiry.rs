//! Expiry of records.

use std::time::Duration;

use tidelock_store::{
    Bounds, Commit, ExpectedRevision, Record, RecordWrite, Slot, Store, StoreExt, Timestamp, When,
    Written,
};

use crate::case::{World, cases};
use crate::sample::{commit, everything, key, revision, value};

cases! { "records::expiry":
    "REC-5 TIME-1" a_record_expires_after_a_time,
    "REC-5 TIME-1" a_record_expires_at_a_moment,
    "REC-5" a_record_is_gone_at_the_very_moment_of_its_expiry,
    "REC-5" an_expiry_that_has_passed_means_at_once,
    "REC-5" a_put_replaces_the_expiry,
    "REC-5" a_put_without_expiry_takes_it_away,
    "REC-5" a_record_made_again_does_not_inherit_an_expiry,
    "REC-4 REC-5" an_addition_sets_the_expiry_of_a_counter_that_it_makes,
    "REC-4 REC-5" an_addition_leaves_the_expiry_of_a_counter_that_is_there,
    "REC-4 REC-5" an_expired_counter_begins_at_zero_with_an_expiry_of_its_own,
    "REC-5" many_records_expire_at_one_moment,
}

const A_WHILE: Duration = Duration::from_secs(60);
const A_MOMENT: Duration = Duration::from_micros(1);

fn put() -> RecordWrite {
    RecordWrite::put(&key("k"), ExpectedRevision::Any, value(7))
}

/// Writes, and returns when that was.
async fn write(store: &dyn Store, write: RecordWrite) -> Timestamp {
    commit(store, Commit::new().write(write)).await.at
}

async fn found(store: &dyn Store) -> Slot {
    store.get_one(&key("k")).await.unwrap()
}

fn live(number: u64, content: i64, expires_at: Option<Timestamp>) -> Slot {
    Slot::Live(Record {
        key: key("k"),
        revision: revision(number),
        value: value(content),
        expires_at,
    })
}

async fn a_record_expires_after_a_time(world: World) {
    let store = &*world.store;
    let at = write(store, put().expiring(When::In(A_WHILE))).await;
    assert_eq!(found(store).await, live(1, 7, Some(at.plus(A_WHILE))));
    world.advance(A_WHILE).await;
    assert_eq!(found(store).await, Slot::Deleted(revision(1)));
}

async fn a_record_expires_at_a_moment(world: World) {
    let store = &*world.store;
    let moment = store.now().await.unwrap().plus(A_WHILE);
    write(store, put().expiring(When::At(moment))).await;
    assert_eq!(found(store).await, live(1, 7, Some(moment)));
    world.advance(A_WHILE).await;
    assert_eq!(found(store).await, Slot::Deleted(revision(1)));
}

async fn a_record_is_gone_at_the_very_moment_of_its_expiry(world: World) {
    let store = &*world.store;
    write(store, put().expiring(When::In(A_WHILE))).await;
    world.advance(A_WHILE - A_MOMENT).await;
    assert!(found(store).await.live().is_some());
    assert_eq!(everything(store).await.records.len(), 1);
    commit(store, Commit::new().guard_record(&key("k"), ExpectedRevision::Exists)).await;

    world.advance(A_MOMENT).await;
    commit(store, Commit::new().guard_record(&key("k"), ExpectedRevision::Absent)).await;
    assert_eq!(found(&*world.another().await).await, Slot::Deleted(revision(1)));
    assert_eq!(everything(store).await.records, []);
}

async fn an_expiry_that_has_passed_means_at_once(world: World) {
    let store = &*world.store;
    let past = store.now().await.unwrap();
    world.advance(A_WHILE).await;
    for (number, when) in (1..).zip([When::At(past), When::NOW]) {
        write(store, put().expiring(when)).await;
        assert_eq!(found(store).await, Slot::Deleted(revision(number)));
    }
}

async fn a_put_replaces_the_expiry(world: World) {
    let store = &*world.store;
    write(store, put().expiring(When::In(A_WHILE))).await;
    world.advance(A_WHILE / 2).await;
    let at = write(store, put().expiring(When::In(A_WHILE))).await;
    world.advance(A_WHILE - A_MOMENT).await;
    assert_eq!(
        found(store).await,
        live(2, 7, Some(at.plus(A_WHILE))),
        "the first expiry has passed"
    );
    world.advance(A_MOMENT).await;
    assert_eq!(found(store).await, Slot::Deleted(revision(2)));
}

async fn a_put_without_expiry_takes_it_away(world: World) {
    let store = &*world.store;
    write(store, put().expiring(When::In(A_WHILE))).await;
    write(store, put()).await;
    world.advance(2 * A_WHILE).await;
    write(store, RecordWrite::put(&key("other"), ExpectedRevision::Any, value(1))).await;
    assert_eq!(found(store).await, live(2, 7, None));
}

async fn a_record_made_again_does_not_inherit_an_expiry(world: World) {
    let store = &*world.store;
    write(store, put().expiring(When::In(A_WHILE))).await;
    write(store, RecordWrite::delete(&key("k"), ExpectedRevision::Exists)).await;
    write(store, RecordWrite::add(&key("k"), 7, Bounds::NONE)).await;
    world.advance(2 * A_WHILE).await;
    write(store, RecordWrite::put(&key("other"), ExpectedRevision::Any, value(1))).await;
    assert_eq!(found(store).await, live(3, 7, None));
}

async fn an_addition_sets_the_expiry_of_a_counter_that_it_makes(world: World) {
    let store = &*world.store;
    let at = write(store, RecordWrite::add(&key("k"), 7, Bounds::NONE).expiring(When::In(A_WHILE)))
        .await;
    assert_eq!(found(store).await, live(1, 7, Some(at.plus(A_WHILE))));
    world.advance(A_WHILE).await;
    assert_eq!(found(store).await, Slot::Deleted(revision(1)));
}

async fn an_addition_leaves_the_expiry_of_a_counter_that_is_there(world: World) {
    let store = &*world.store;
    let add = || RecordWrite::add(&key("k"), 1, Bounds::NONE);
    let at = write(store, put().expiring(When::In(A_WHILE))).await;
    world.advance(A_WHILE / 2).await;
    write(store, add().expiring(When::In(A_WHILE))).await;
    write(store, add()).await;
    assert_eq!(found(store).await, live(3, 9, Some(at.plus(A_WHILE))));

    write(store, put()).await;
    write(store, add().expiring(When::In(A_WHILE))).await;
    assert_eq!(found(store).await, live(5, 8, None), "a record without an expiry keeps none");
}

async fn an_expired_counter_begins_at_zero_with_an_expiry_of_its_own(world: World) {
    let store = &*world.store;
    let add = || RecordWrite::add(&key("k"), 5, Bounds::at_most(5)).expiring(When::In(A_WHILE));
    write(store, add()).await;
    world.advance(A_WHILE).await;
    let done = commit(store, Commit::new().write(add())).await;
    assert_eq!(done.writes, [Written { key: key("k"), revision: Some(revision(2)), sum: Some(5) }]);
    assert_eq!(found(store).await, live(2, 5, Some(done.at.plus(A_WHILE))));
}

/// More than any sweep removes at once.
async fn many_records_expire_at_one_moment(world: World) {
    let store = &*world.store;
    let keys: Vec<_> = (0..200).map(|number| key(&format!("k{number}"))).collect();
    let many = keys.iter().fold(Commit::new(), |commit, key| {
        commit.write(
            RecordWrite::put(key, ExpectedRevision::Any, value(1)).expiring(When::In(A_WHILE)),
        )
    });
    commit(store, many).await;
    world.advance(A_WHILE).await;
    write(store, put()).await;
    let slots = store.get(&keys).await.unwrap();
    assert!(slots.iter().all(|slot| *slot == Slot::Deleted(revision(1))));
    assert_eq!(everything(store).await.records.len(), 1);
}
