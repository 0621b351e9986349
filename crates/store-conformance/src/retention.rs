//! Retention: rows past it leave the store, and their numbers are not reused.

use std::time::Duration;

use tidelock_store::{
    Adjustment, AfterTrim, Append, Commit, CommitId, ExpectedRevision, ExpectedVersion, ItemFilter,
    ItemQuery, RecordWrite, Revision, Settlement, Slot, Store, StoreExt, StreamQuery, StreamState,
    When, limits,
};

use crate::case::{World, cases};
use crate::items::{leased, settle};
use crate::sample::{
    commit, event, events, item, key, lease_one, mark, refused_whole, revision, stream, value,
    version, wake,
};

cases! { "retention":
    "KEEP-1 REC-3" a_deleted_record_reads_as_deleted_until_its_tombstone_is_forgotten,
    "KEEP-1 REC-3" an_expired_record_reads_as_deleted_until_its_tombstone_is_forgotten,
    "KEEP-1 REC-2" a_record_made_again_after_its_tombstone_is_above_all_it_had,
    "KEEP-1 REC-2" a_record_that_is_there_goes_on_counting_by_one_after_others_were_forgotten,
    "KEEP-1" a_record_written_again_before_its_tombstone_is_forgotten_stays,
    "KEEP-1 REC-1" a_revision_read_before_a_tombstone_was_forgotten_is_refused,
    "KEEP-2" a_finished_item_leaves_when_its_time_has_come,
    "KEEP-2 LEASE-2" an_item_made_again_has_a_higher_fence_than_the_forgotten_one,
    "KEEP-2 LEASE-3" a_finished_item_that_is_woken_stays,
    "KEEP-2 LEASE-3" an_item_that_was_woken_while_it_was_held_is_not_forgotten,
    "KEEP-2 LEASE-9" a_finished_item_can_be_settled_again_until_it_is_forgotten,
    "KEEP-2" an_acknowledged_item_that_was_not_finished_stays,
    "KEEP-2 LEASE-10" an_idle_item_is_forgotten_when_an_adjustment_says_so_and_no_other_is,
    "KEEP-3" an_empty_stream_leaves_when_its_time_has_come,
    "KEEP-3 LOG-2" a_stream_made_again_begins_above_the_versions_of_its_category,
    "KEEP-3 LOG-2" a_stream_of_another_category_begins_at_1,
    "KEEP-3" a_stream_that_was_appended_to_stays,
    "KEEP-3" a_stream_with_events_left_is_not_forgotten,
    "KEEP-4 COMMIT-4" a_commit_id_is_remembered_for_as_long_as_its_commit_says,
}

const HOUR: Duration = limits::TOMBSTONE_MEMORY;
const SECOND: Duration = Duration::from_secs(1);

/// Lets time pass, and sweeps.
async fn pass(world: &World, duration: Duration) {
    world.advance(duration).await;
    world.sweep().await;
}

async fn slot(store: &dyn Store) -> Slot {
    store.get_one(&key("k")).await.unwrap()
}

/// Writes the record this often and deletes it; returns its last revision.
async fn used(store: &dyn Store, times: i64) -> Revision {
    for number in 1..times {
        commit(store, Commit::new().write(put(number))).await;
    }
    let done =
        commit(store, Commit::new().write(RecordWrite::delete(&key("k"), ExpectedRevision::Any)))
            .await;
    done.writes[0].revision.unwrap()
}

fn put(number: i64) -> RecordWrite {
    RecordWrite::put(&key("k"), ExpectedRevision::Any, value(number))
}

async fn a_deleted_record_reads_as_deleted_until_its_tombstone_is_forgotten(world: World) {
    let store = &*world.store;
    let last = used(store, 3).await;
    pass(&world, HOUR - SECOND).await;
    assert_eq!(slot(store).await, Slot::Deleted(last));
    pass(&world, SECOND).await;
    assert_eq!(slot(store).await, Slot::Absent);
    assert_eq!(world.another().await.get_one(&key("k")).await.unwrap(), Slot::Absent);
}

async fn an_expired_record_reads_as_deleted_until_its_tombstone_is_forgotten(world: World) {
    let store = &*world.store;
    commit(store, Commit::new().write(put(1).expiring(When::In(SECOND)))).await;
    // Whether or not its value was removed in the meantime.
    pass(&world, SECOND).await;
    assert_eq!(slot(store).await, Slot::Deleted(revision(1)));
    pass(&world, HOUR - SECOND).await;
    assert_eq!(slot(store).await, Slot::Deleted(revision(1)));
    pass(&world, SECOND).await;
    assert_eq!(slot(store).await, Slot::Absent);

    commit(store, Commit::new().write(put(1).expiring(When::In(SECOND)))).await;
    pass(&world, HOUR + SECOND).await;
    assert_eq!(slot(store).await, Slot::Absent, "in one go");
}

async fn a_record_made_again_after_its_tombstone_is_above_all_it_had(world: World) {
    let store = &*world.store;
    let mut highest = used(store, 5).await;
    for _ in 0..3 {
        pass(&world, HOUR).await;
        let done = commit(store, Commit::new().write(put(1))).await;
        let next = done.writes[0].revision.unwrap();
        assert!(next > highest, "{next} came after {highest}");
        assert_eq!(slot(store).await.revision(), Some(next));
        highest = used(store, 2).await;
    }
}

async fn a_record_that_is_there_goes_on_counting_by_one_after_others_were_forgotten(world: World) {
    let store = &*world.store;
    let other = |number| RecordWrite::put(&key("other"), ExpectedRevision::Any, value(number));
    commit(store, Commit::new().write(other(1))).await;
    used(store, 5).await;
    pass(&world, HOUR).await;
    let done = commit(store, Commit::new().write(other(2))).await;
    assert_eq!(done.writes[0].revision, Some(revision(2)));
}

async fn a_record_written_again_before_its_tombstone_is_forgotten_stays(world: World) {
    let store = &*world.store;
    used(store, 2).await;
    pass(&world, HOUR - SECOND).await;
    commit(store, Commit::new().write(put(7))).await;
    pass(&world, HOUR * 2).await;
    assert_eq!(slot(store).await.live().unwrap().value, value(7));
    assert_eq!(slot(store).await.revision(), Some(revision(3)));
}

async fn a_revision_read_before_a_tombstone_was_forgotten_is_refused(world: World) {
    let store = &*world.store;
    commit(store, Commit::new().write(put(1))).await;
    let read = slot(store).await.revision().unwrap();
    used(store, 1).await;
    pass(&world, HOUR).await;
    let stale = || RecordWrite::put(&key("k"), ExpectedRevision::Revision(read), value(8));
    refused_whole(store, Commit::new().write(stale())).await;
    for number in 0..4 {
        commit(store, Commit::new().write(put(number))).await;
        refused_whole(store, Commit::new().write(stale())).await;
    }
}

async fn listed(store: &dyn Store) -> usize {
    store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items.len()
}

async fn a_finished_item_leaves_when_its_time_has_come(world: World) {
    let store = &*world.store;
    let lease = leased(store, "a", 3).await;
    settle(store, Settlement::finish(lease.token(), mark(3), When::In(SECOND * 10))).await;
    let there = store.item(&item("a")).await.unwrap().unwrap();
    assert_eq!(there.forget_at, Some(store.now().await.unwrap().plus(SECOND * 10)));
    pass(&world, SECOND * 9).await;
    assert_eq!(listed(store).await, 1);
    pass(&world, SECOND).await;
    assert_eq!(listed(store).await, 0);
    assert_eq!(store.item(&item("a")).await.unwrap(), None);
}

async fn an_item_made_again_has_a_higher_fence_than_the_forgotten_one(world: World) {
    let store = &*world.store;
    let mut highest = 0;
    for round in 1..=3 {
        // Leased once more each time, so that counting from 1 would reach the earlier number.
        for _ in 0..round {
            let lease = leased(store, "a", round).await;
            assert!(lease.fence.get() > highest, "{} came after {highest}", lease.fence);
            highest = lease.fence.get();
            settle(store, Settlement::release(lease.token())).await;
        }
        let lease = lease_one(store, "w").await;
        highest = lease.fence.get();
        let stale = lease.token();
        settle(store, Settlement::finish(lease.token(), mark(round), When::In(SECOND))).await;
        pass(&world, SECOND).await;
        wake(store, "a", round).await;
        refused_whole(store, Commit::new().fenced_by(stale.clone())).await;
        refused_whole(store, Commit::new().settle(Settlement::ack(stale, mark(round)))).await;
    }
}

async fn a_finished_item_that_is_woken_stays(world: World) {
    let store = &*world.store;
    let lease = leased(store, "a", 3).await;
    settle(store, Settlement::finish(lease.token(), mark(3), When::In(SECOND))).await;
    // A mark that is done already wakes nothing, and keeps nothing.
    wake(store, "a", 3).await;
    assert!(store.item(&item("a")).await.unwrap().unwrap().forget_at.is_some());
    wake(store, "a", 4).await;
    pass(&world, SECOND * 5).await;
    let there = store.item(&item("a")).await.unwrap().unwrap();
    assert_eq!((there.at, there.mark, there.forget_at), (mark(3), mark(4), None));
}

async fn an_item_that_was_woken_while_it_was_held_is_not_forgotten(world: World) {
    let store = &*world.store;
    let lease = leased(store, "a", 3).await;
    wake(store, "a", 5).await;
    settle(store, Settlement::finish(lease.token(), mark(3), When::In(SECOND))).await;
    pass(&world, SECOND * 5).await;
    assert_eq!(lease_one(store, "w").await.mark, mark(5));
}

async fn a_finished_item_can_be_settled_again_until_it_is_forgotten(world: World) {
    let store = &*world.store;
    let lease = leased(store, "a", 3).await;
    let finish = || Settlement::finish(lease.token(), mark(3), When::In(SECOND));
    settle(store, finish()).await;
    settle(store, finish()).await;
    pass(&world, SECOND).await;
    refused_whole(store, Commit::new().settle(finish())).await;
}

async fn an_acknowledged_item_that_was_not_finished_stays(world: World) {
    let store = &*world.store;
    let lease = leased(store, "a", 3).await;
    settle(store, Settlement::ack(lease.token(), mark(3))).await;
    pass(&world, Duration::from_secs(365 * 24 * 3600)).await;
    assert_eq!(store.item(&item("a")).await.unwrap().unwrap().at, mark(3), "its cursor is kept");
}

async fn an_idle_item_is_forgotten_when_an_adjustment_says_so_and_no_other_is(world: World) {
    let store = &*world.store;
    let lease = leased(store, "idle", 3).await;
    settle(store, Settlement::ack(lease.token(), mark(3))).await;
    let blocked = leased(store, "blocked", 1).await;
    settle(store, Settlement::block(blocked.token(), "no luck")).await;
    leased(store, "held", 1).await;
    wake(store, "due", 1).await;
    let forget = Adjustment::Forget { when: When::In(SECOND) };
    let adjusted = store.adjust(ItemFilter::default(), forget).await.unwrap();
    assert_eq!((adjusted.matched, adjusted.changed), (4, 1));
    pass(&world, SECOND).await;
    assert_eq!(store.item(&item("idle")).await.unwrap(), None);
    assert_eq!(listed(store).await, 3);
}

/// Appends this many events to a stream.
async fn filled(store: &dyn Store, name: &str, count: u64) -> u64 {
    let append = Commit::new().append(&stream(name), ExpectedVersion::Any, events(count));
    commit(store, append).await.appends[0].version.get()
}

/// Removes all events of a stream, and has it forgotten after a second.
async fn emptied(store: &dyn Store, name: &str, last: u64) {
    let close = Append::closing(&stream(name), ExpectedVersion::Exact(version(last)));
    let forget = AfterTrim::Forget(When::In(SECOND));
    commit(store, Commit::new().with_append(close).trim(&stream(name), version(last), forget))
        .await;
}

async fn state(store: &dyn Store, name: &str) -> StreamState {
    store.read_stream(StreamQuery::forward(&stream(name))).await.unwrap().state
}

async fn an_empty_stream_leaves_when_its_time_has_come(world: World) {
    let store = &*world.store;
    filled(store, "run/a", 3).await;
    emptied(store, "run/a", 3).await;
    assert_eq!(state(store, "run/a").await, StreamState::Open(version(3)));
    pass(&world, SECOND).await;
    assert_eq!(state(store, "run/a").await, StreamState::Absent);
    refused_whole(store, Commit::new().guard_stream(&stream("run/a"), ExpectedVersion::Exists))
        .await;
}

async fn a_stream_made_again_begins_above_the_versions_of_its_category(world: World) {
    let store = &*world.store;
    filled(store, "run/a", 3).await;
    emptied(store, "run/a", 3).await;
    pass(&world, SECOND).await;
    let none = ExpectedVersion::NoStream;
    for name in ["run/a", "run/b/c"] {
        let made = Commit::new().append(&stream(name), none, [event(1), event(1)]);
        assert_eq!(commit(store, made).await.appends[0].version, version(5), "{name}");
        let page = store.read_stream(StreamQuery::forward(&stream(name))).await.unwrap();
        assert_eq!((page.first, page.state), (Some(version(4)), StreamState::Open(version(5))));
        let versions: Vec<_> = page.events.iter().map(|event| event.version.get()).collect();
        assert_eq!(versions, [4, 5]);
        let exact = ExpectedVersion::Exact(version(3));
        refused_whole(store, Commit::new().append(&stream(name), exact, [event(1)])).await;
    }
    // Alone, as the only part of its commit, and with parts of other kinds.
    let alone = Commit::new().append(&stream("run/d"), ExpectedVersion::Any, [event(1)]);
    assert_eq!(commit(store, alone).await.appends[0].version, version(4));
    let mixed = Commit::new().append(&stream("run/e"), none, [event(1)]).write(put(1));
    assert_eq!(commit(store, mixed).await.appends[0].version, version(4));
}

async fn a_stream_of_another_category_begins_at_1(world: World) {
    let store = &*world.store;
    for name in ["run/a", "order-7"] {
        filled(store, name, 3).await;
        emptied(store, name, 3).await;
    }
    pass(&world, SECOND).await;
    for name in ["run", "runs/a", "a", "order-8", "order"] {
        assert_eq!(filled(store, name, 1).await, 1, "{name}");
    }
    assert_eq!(filled(store, "order-7", 1).await, 4, "a name without a slash is its own category");
}

async fn a_stream_that_was_appended_to_stays(world: World) {
    let store = &*world.store;
    filled(store, "run/a", 3).await;
    emptied(store, "run/a", 3).await;
    assert_eq!(filled(store, "run/a", 1).await, 4);
    pass(&world, SECOND * 5).await;
    assert_eq!(state(store, "run/a").await, StreamState::Open(version(4)));
}

async fn a_stream_with_events_left_is_not_forgotten(world: World) {
    let store = &*world.store;
    filled(store, "run/a", 3).await;
    let close = Append::closing(&stream("run/a"), ExpectedVersion::Exact(version(3)));
    let forget = AfterTrim::Forget(When::In(SECOND));
    commit(store, Commit::new().with_append(close).trim(&stream("run/a"), version(2), forget))
        .await;
    pass(&world, SECOND * 5).await;
    assert_eq!(state(store, "run/a").await, StreamState::Open(version(3)));
}

async fn a_commit_id_is_remembered_for_as_long_as_its_commit_says(world: World) {
    let store = &*world.store;
    let under = |id| Commit::new().with_id(id).write(put(1));
    let (short, long) = (CommitId::fresh(), CommitId::fresh());
    for _ in 0..2 {
        let done = commit(store, under(short).dedup_window(SECOND * 10)).await;
        assert_eq!(done.writes[0].revision, Some(revision(1)));
    }
    commit(store, under(long)).await;
    pass(&world, SECOND * 10).await;
    let done = commit(store, under(short).dedup_window(SECOND * 10)).await;
    assert_eq!(done.writes[0].revision, Some(revision(3)), "it was forgotten, and is made again");
    assert_eq!(commit(store, under(long)).await.writes[0].revision, Some(revision(2)));
}
