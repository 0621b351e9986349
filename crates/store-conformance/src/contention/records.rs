//! Races for records and counters.

use tidelock_store::{
    Bounds, Commit, CommitOutcome, Conflict, ExpectedRevision, Part, Record, RecordWrite, Revision,
    Slot, Store, StoreExt, Violation, ViolationReason,
};

use super::race;
use crate::case::{World, cases};
use crate::sample::{commit, key, value};

cases! { "contention::records":
    "REC-1" of_64_creators_of_one_record_one_wins,
    "REC-1 REC-2" every_increment_by_compare_and_swap_lands,
    "REC-4" the_last_unit_goes_to_one_of_64,
    "REC-4" a_quota_is_used_up_to_the_last_unit_and_never_past_it,
    "REC-4" a_stock_never_falls_below_zero,
    "REC-4" additions_from_many_sum_up_exactly,
    "COMMIT-1 REC-4" additions_to_two_counters_in_opposite_order_all_land,
}

fn counter(number: i64, revision: u64) -> Slot {
    let revision = Revision::new(revision).unwrap();
    Slot::Live(Record { key: key("k"), revision, value: value(number), expires_at: None })
}

fn accepted(outcomes: &[CommitOutcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Committed(_))).count()
}

async fn of_64_creators_of_one_record_one_wins(world: World) {
    let outcomes = race(&world, 64, |racer, store| async move {
        store.put(&key("k"), ExpectedRevision::Absent, value(racer as i64)).await.unwrap()
    })
    .await;
    assert_eq!(accepted(&outcomes), 1);
    let found = world.store.get_one(&key("k")).await.unwrap();
    let reason =
        ViolationReason::Record { key: key("k"), expected: ExpectedRevision::Absent, found };
    let refusal = Conflict { violations: vec![Violation { part: Part::Write(0), reason }] };
    let refusals = outcomes.into_iter().filter_map(CommitOutcome::conflict);
    assert!(refusals.into_iter().all(|conflict| conflict == refusal));
}

/// Schedule 54.
async fn every_increment_by_compare_and_swap_lands(world: World) {
    const RACERS: usize = 16;
    let tries = race(&world, RACERS, |_, store| async move { increment(&*store, RACERS).await });
    assert!(
        tries.await.into_iter().all(|tries| tries <= RACERS),
        "each try but the last lost to another"
    );
    let racers = RACERS as i64;
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(racers, racers as u64));
}

/// Increments by compare-and-swap; returns the number of attempts.
async fn increment(store: &dyn Store, most: usize) -> usize {
    for nth in 1..=most {
        let slot = store.get_one(&key("k")).await.unwrap();
        let (expected, number) = match slot.live() {
            None => (ExpectedRevision::Absent, 0),
            Some(record) => {
                (ExpectedRevision::Revision(record.revision), record.value.to::<i64>().unwrap())
            }
        };
        let outcome = store.put(&key("k"), expected, value(number + 1)).await.unwrap();
        if matches!(outcome, CommitOutcome::Committed(_)) {
            return nth;
        }
    }
    panic!("still refused after {most} tries");
}

async fn add(store: &dyn Store, delta: i64, within: Bounds) -> CommitOutcome {
    store.commit(Commit::new().write(RecordWrite::add(&key("k"), delta, within))).await.unwrap()
}

/// Schedule 62.
async fn the_last_unit_goes_to_one_of_64(world: World) {
    let within = Bounds::at_most(10);
    commit(&*world.store, Commit::new().write(RecordWrite::add(&key("k"), 9, within))).await;
    let outcomes = race(&world, 64, |_, store| async move { add(&*store, 1, within).await }).await;
    assert_eq!(accepted(&outcomes), 1);
    let reason = ViolationReason::Bound { key: key("k"), found: 10, delta: 1, within };
    let refusal = Conflict { violations: vec![Violation { part: Part::Write(0), reason }] };
    let refusals = outcomes.into_iter().filter_map(CommitOutcome::conflict);
    assert!(refusals.into_iter().all(|conflict| conflict == refusal));
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(10, 2));
}

async fn a_quota_is_used_up_to_the_last_unit_and_never_past_it(world: World) {
    let outcomes =
        race(&world, 64, |_, store| async move { add(&*store, 1, Bounds::at_most(18)).await });
    let granted = outcomes.await.into_iter().filter_map(|outcome| outcome.committed().ok());
    let mut sums: Vec<Option<i64>> = granted.map(|granted| granted.writes[0].sum).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=18).map(Some).collect::<Vec<_>>());
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(18, 18));
}

async fn a_stock_never_falls_below_zero(world: World) {
    commit(&*world.store, Commit::new().write(RecordWrite::add(&key("k"), 20, Bounds::NONE))).await;
    let outcomes =
        race(&world, 64, |_, store| async move { add(&*store, -3, Bounds::at_least(0)).await });
    assert_eq!(accepted(&outcomes.await), 6, "six times three is eighteen");
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(2, 7));
}

async fn additions_from_many_sum_up_exactly(world: World) {
    race(&world, 64, |racer, store| async move {
        for delta in [racer as i64, -1, 1_000] {
            assert!(matches!(add(&*store, delta, Bounds::NONE).await, CommitOutcome::Committed(_)));
        }
    })
    .await;
    let sum = (0..64).sum::<i64>() + 64 * 999;
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(sum, 192));
}

async fn additions_to_two_counters_in_opposite_order_all_land(world: World) {
    race(&world, 16, |racer, store| async move {
        let (one, other) = if racer % 2 == 0 { ("k", "l") } else { ("l", "k") };
        for _ in 0..5 {
            let both = Commit::new()
                .write(RecordWrite::add(&key(one), 1, Bounds::NONE))
                .write(RecordWrite::add(&key(other), 1, Bounds::NONE));
            commit(&*store, both).await;
        }
    })
    .await;
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), counter(80, 80));
}
