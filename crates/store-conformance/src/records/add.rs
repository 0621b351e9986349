//! Counters: additions in the store, within bounds.

use tidelock_store::{
    Bounds, Commit, CommitOutcome, ExpectedRevision, Part, Record, RecordWrite, Slot, Store,
    StoreExt, ViolationKind, ViolationReason, Written,
};

use crate::case::{World, cases};
use crate::sample::{at_once, commit, json, key, refused_whole, revision, value, violation};

cases! { "records::add":
    "REC-4" a_counter_begins_at_zero,
    "REC-4" a_counter_that_was_deleted_begins_at_zero_again,
    "REC-4" additions_add_up_in_both_directions,
    "REC-4" a_sum_may_reach_its_bounds_and_not_pass_them,
    "REC-4" a_sum_past_64_bits_is_refused,
    "REC-4" the_ends_of_64_bits_are_reached,
    "REC-4" a_counter_past_a_lowered_bound_moves_back_and_no_further,
    "REC-4" only_the_bound_moved_towards_counts,
    "REC-4" adding_nothing_is_within_every_bound,
    "REC-4 REC-3" nothing_is_added_to_what_is_no_integer,
    "REC-4" spaces_around_an_integer_do_not_matter,
    "REC-4 REC-1" an_expectation_comes_before_the_bound,
    "REC-4" of_two_takers_of_the_last_unit_one_gets_it,
}

/// Adds to the record "n".
fn add(delta: i64, within: Bounds) -> Commit {
    Commit::new().write(RecordWrite::add(&key("n"), delta, within))
}

async fn sum(store: &dyn Store, delta: i64, within: Bounds) -> i64 {
    commit(store, add(delta, within)).await.writes[0].sum.unwrap()
}

async fn set(store: &dyn Store, number: i64) {
    commit(
        store,
        Commit::new().write(RecordWrite::put(&key("n"), ExpectedRevision::Any, value(number))),
    )
    .await;
}

/// An addition that exceeds its bounds: nothing changes.
async fn exceeds(store: &dyn Store, found: i64, delta: i64, within: Bounds) {
    let before = store.get_one(&key("n")).await.unwrap();
    let conflict = refused_whole(store, add(delta, within)).await;
    assert_eq!(
        conflict,
        violation(Part::Write(0), ViolationReason::Bound { key: key("n"), found, delta, within })
    );
    assert!(conflict.has(ViolationKind::Exceeded));
    assert_eq!(store.get_one(&key("n")).await.unwrap(), before);
}

async fn a_counter_begins_at_zero(world: World) {
    let store = &*world.store;
    let done = commit(store, add(-5, Bounds::NONE)).await;
    assert_eq!(
        done.writes,
        [Written { key: key("n"), revision: Some(revision(1)), sum: Some(-5) }]
    );
    let there = Record { key: key("n"), revision: revision(1), value: value(-5), expires_at: None };
    assert_eq!(store.get_one(&key("n")).await.unwrap(), Slot::Live(there));
}

async fn a_counter_that_was_deleted_begins_at_zero_again(world: World) {
    let store = &*world.store;
    set(store, 40).await;
    commit(store, Commit::new().write(RecordWrite::delete(&key("n"), ExpectedRevision::Any))).await;
    let done = commit(store, add(2, Bounds::at_most(2))).await;
    assert_eq!(done.writes, [Written { key: key("n"), revision: Some(revision(3)), sum: Some(2) }]);
}

async fn additions_add_up_in_both_directions(world: World) {
    let store = &*world.store;
    for (delta, expected) in [(5, 5), (7, 12), (-20, -8), (8, 0), (0, 0)] {
        assert_eq!(sum(store, delta, Bounds::NONE).await, expected);
    }
    assert_eq!(store.get_one(&key("n")).await.unwrap().into_live().unwrap().value, value(0));
}

async fn a_sum_may_reach_its_bounds_and_not_pass_them(world: World) {
    let (store, within) = (&*world.store, Bounds::between(-3, 10));
    exceeds(store, 0, 11, within).await;
    assert_eq!(
        store.get_one(&key("n")).await.unwrap(),
        Slot::Absent,
        "a refused addition makes no counter"
    );
    assert_eq!(sum(store, 10, within).await, 10);
    exceeds(store, 10, 1, within).await;
    exceeds(store, 10, -14, within).await;
    assert_eq!(sum(store, -13, within).await, -3);
    exceeds(store, -3, -1, within).await;
    exceeds(store, -3, i64::MIN, within).await;
}

async fn a_sum_past_64_bits_is_refused(world: World) {
    let store = &*world.store;
    set(store, i64::MAX - 1).await;
    exceeds(store, i64::MAX - 1, 2, Bounds::NONE).await;
    exceeds(store, i64::MAX - 1, i64::MAX, Bounds::NONE).await;
    set(store, i64::MIN + 1).await;
    exceeds(store, i64::MIN + 1, -2, Bounds::NONE).await;
    exceeds(store, i64::MIN + 1, i64::MIN, Bounds::at_least(0)).await;
}

async fn the_ends_of_64_bits_are_reached(world: World) {
    let store = &*world.store;
    assert_eq!(sum(store, i64::MAX, Bounds::at_most(i64::MAX)).await, i64::MAX);
    exceeds(store, i64::MAX, 1, Bounds::NONE).await;
    assert_eq!(sum(store, i64::MIN, Bounds::at_least(i64::MIN)).await, -1);
    assert_eq!(sum(store, i64::MIN + 1, Bounds::NONE).await, i64::MIN);
    exceeds(store, i64::MIN, -1, Bounds::NONE).await;
    assert_eq!(store.get_one(&key("n")).await.unwrap().into_live().unwrap().value, value(i64::MIN));
}

async fn a_counter_past_a_lowered_bound_moves_back_and_no_further(world: World) {
    let (store, lowered) = (&*world.store, Bounds::between(0, 10));
    set(store, 20).await;
    exceeds(store, 20, 1, lowered).await;
    assert_eq!(sum(store, -5, lowered).await, 15, "back, though still past the bound");
    exceeds(store, 15, 1, lowered).await;
    assert_eq!(sum(store, -6, lowered).await, 9);
    assert_eq!(sum(store, 1, lowered).await, 10);

    set(store, -20).await;
    exceeds(store, -20, -1, lowered).await;
    assert_eq!(sum(store, 5, lowered).await, -15);
}

async fn only_the_bound_moved_towards_counts(world: World) {
    let store = &*world.store;
    assert_eq!(sum(store, -7, Bounds::at_most(-10)).await, -7);
    assert_eq!(sum(store, 3, Bounds::at_least(0)).await, -4);
}

async fn adding_nothing_is_within_every_bound(world: World) {
    let store = &*world.store;
    assert_eq!(sum(store, 0, Bounds::between(5, 6)).await, 0);
    set(store, 20).await;
    assert_eq!(sum(store, 0, Bounds::at_most(10)).await, 20);
}

async fn nothing_is_added_to_what_is_no_integer(world: World) {
    let store = &*world.store;
    for (number, text) in (1..).zip(["\"5\"", "1.5", "null", "true", "[5]", "{\"n\":5}", "\"\""]) {
        let put = RecordWrite::put(&key("n"), ExpectedRevision::Any, json(text));
        commit(store, Commit::new().write(put)).await;
        let conflict = refused_whole(store, add(1, Bounds::NONE)).await;
        let found = Record {
            key: key("n"),
            revision: revision(number),
            value: json(text),
            expires_at: None,
        };
        assert_eq!(conflict, violation(Part::Write(0), ViolationReason::NotACounter { found }));
        assert!(conflict.has(ViolationKind::Unfit));
    }
}

async fn spaces_around_an_integer_do_not_matter(world: World) {
    let store = &*world.store;
    store.put(&key("n"), ExpectedRevision::Any, json(" 5\n")).await.unwrap().committed().unwrap();
    assert_eq!(sum(store, 2, Bounds::NONE).await, 7);
}

async fn an_expectation_comes_before_the_bound(world: World) {
    let store = &*world.store;
    set(store, 20).await;
    let expected = ExpectedRevision::Revision(revision(9));
    let write = RecordWrite { expected, ..RecordWrite::add(&key("n"), 1, Bounds::at_most(10)) };
    let found = store.get_one(&key("n")).await.unwrap();
    let conflict = refused_whole(store, Commit::new().write(write)).await;
    assert_eq!(
        conflict,
        violation(Part::Write(0), ViolationReason::Record { key: key("n"), expected, found })
    );
}

async fn of_two_takers_of_the_last_unit_one_gets_it(world: World) {
    let store = &*world.store;
    set(store, 1).await;
    let take = || add(-1, Bounds::at_least(0));
    let outcomes = at_once(&world, take(), take()).await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(CommitOutcome::conflict).collect();
    let within = Bounds::at_least(0);
    assert_eq!(
        refused,
        [violation(
            Part::Write(0),
            ViolationReason::Bound { key: key("n"), found: 0, delta: -1, within }
        )]
    );
    assert_eq!(store.get_one(&key("n")).await.unwrap().into_live().unwrap().value, value(0));
}
