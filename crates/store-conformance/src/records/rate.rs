//! Rates: draws that are replenished over time.

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Committed, ExpectedRevision, Part, Rate, Record, RecordWrite, Slot,
    Store, StoreErrorKind, StoreExt, Timestamp, ViolationKind, ViolationReason, Written,
};

use crate::case::{World, cases};
use crate::sample::{
    at_once, commit, everything, failed, key, refused_whole, revision, value, violation,
};

cases! { "records::rate":
    "REC-7" a_draw_is_replenished_after_its_cost,
    "REC-7" draws_are_possible_until_the_burst_is_used_up,
    "REC-7" a_draw_is_possible_at_the_very_moment_that_was_told,
    "REC-7" no_span_of_time_has_more_than_its_burst_and_its_share,
    "REC-7" a_larger_draw_waits_longer,
    "REC-7" a_draw_for_nothing_is_always_possible,
    "REC-7" a_smaller_burst_counts_from_the_next_draw_on,
    "REC-7 REC-3" nothing_is_drawn_on_what_is_no_integer,
    "REC-7 REC-1" an_expectation_comes_before_the_rate,
    "REC-7" a_draw_that_never_fits_is_invalid,
    "REC-7" of_two_who_draw_the_last_unit_one_gets_it,
    "REC-7 TIME-1" a_calendar_set_back_replenishes_nothing_twice,
}

const SECOND: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_micros(1);

/// Three at once, and one more each second.
fn draw(units: u32) -> Rate {
    Rate { cost: SECOND * units, burst: 3 * SECOND }
}

fn drawing(rate: Rate) -> Commit {
    Commit::new().write(RecordWrite::rate(&key("r"), rate))
}

async fn drawn(store: &dyn Store, rate: Rate) -> Committed {
    commit(store, drawing(rate)).await
}

/// A draw that is refused until then: nothing changes.
async fn used_up(store: &dyn Store, rate: Rate, possible_at: Timestamp) {
    let before = store.get_one(&key("r")).await.unwrap();
    let conflict = refused_whole(store, drawing(rate)).await;
    let reason = ViolationReason::Rate { key: key("r"), rate, possible_at };
    assert_eq!(conflict, violation(Part::Write(0), reason));
    assert!(conflict.has(ViolationKind::Exceeded));
    assert_eq!(store.get_one(&key("r")).await.unwrap(), before);
}

async fn a_draw_is_replenished_after_its_cost(world: World) {
    let store = &*world.store;
    let done = drawn(store, draw(2)).await;
    let full_at = done.at.plus(2 * SECOND);
    let written =
        Written { key: key("r"), revision: Some(revision(1)), sum: Some(full_at.micros()) };
    assert_eq!(done.writes, [written]);
    let record = Record {
        key: key("r"),
        revision: revision(1),
        value: value(full_at.micros()),
        expires_at: Some(full_at),
    };
    assert_eq!(store.get_one(&key("r")).await.unwrap(), Slot::Live(record));
    world.advance(2 * SECOND).await;
    assert_eq!(store.get_one(&key("r")).await.unwrap(), Slot::Deleted(revision(1)));
    assert_eq!(everything(store).await.records, []);
}

async fn draws_are_possible_until_the_burst_is_used_up(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(1)).await.at;
    drawn(store, draw(1)).await;
    drawn(store, draw(1)).await;
    used_up(store, draw(1), first.plus(SECOND)).await;
}

async fn a_draw_is_possible_at_the_very_moment_that_was_told(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(3)).await.at;
    world.advance(SECOND - A_MOMENT).await;
    used_up(store, draw(1), first.plus(SECOND)).await;
    world.advance(A_MOMENT).await;
    drawn(store, draw(1)).await;
    used_up(store, draw(1), first.plus(2 * SECOND)).await;
}

/// A fixed window would let twice its limit through around its edge.
async fn no_span_of_time_has_more_than_its_burst_and_its_share(world: World) {
    let store = &*world.store;
    let mut moments = Vec::new();
    for _ in 0..40 {
        while let CommitOutcome::Committed(done) = store.commit(drawing(draw(1))).await.unwrap() {
            moments.push(done.at);
        }
        world.advance(Duration::from_millis(300)).await;
    }
    assert!(moments.len() >= 3 + 11, "only {} draws in 12 seconds", moments.len());
    for (at, first) in moments.iter().enumerate() {
        for (more, last) in (1..).zip(&moments[at..]) {
            let share = u64::try_from(last.since(*first).as_micros() / SECOND.as_micros()).unwrap();
            assert!(more <= 3 + share, "{more} draws from {first} to {last}");
        }
    }
}

async fn a_larger_draw_waits_longer(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(2)).await.at;
    used_up(store, draw(3), first.plus(2 * SECOND)).await;
    used_up(store, draw(2), first.plus(SECOND)).await;
    drawn(store, draw(1)).await;
}

async fn a_draw_for_nothing_is_always_possible(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(0)).await;
    assert_eq!(store.get_one(&key("r")).await.unwrap(), Slot::Deleted(revision(1)));
    drawn(store, draw(3)).await;
    let done = drawn(store, draw(0)).await;
    assert_eq!(done.writes[0].sum, Some(first.at.plus(3 * SECOND).micros()));
}

async fn a_smaller_burst_counts_from_the_next_draw_on(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(3)).await.at;
    let rate = Rate { cost: SECOND, burst: SECOND };
    used_up(store, rate, first.plus(3 * SECOND)).await;
    world.advance(3 * SECOND).await;
    drawn(store, rate).await;
}

async fn nothing_is_drawn_on_what_is_no_integer(world: World) {
    let store = &*world.store;
    let text = tidelock_store::RawJson::new("text").unwrap();
    let put = RecordWrite::put(&key("r"), ExpectedRevision::Any, text);
    commit(store, Commit::new().write(put)).await;
    let found = store.get_one(&key("r")).await.unwrap().into_live().unwrap();
    let conflict = refused_whole(store, drawing(draw(1))).await;
    assert_eq!(conflict, violation(Part::Write(0), ViolationReason::NotACounter { found }));
}

async fn an_expectation_comes_before_the_rate(world: World) {
    let store = &*world.store;
    drawn(store, draw(3)).await;
    let write =
        RecordWrite { expected: ExpectedRevision::Absent, ..drawing(draw(1)).writes.remove(0) };
    let conflict = refused_whole(store, Commit::new().write(write)).await;
    assert_eq!(conflict.first().reason.kind(), ViolationKind::Taken);
}

async fn a_draw_that_never_fits_is_invalid(world: World) {
    let store = &*world.store;
    let error = failed(store, drawing(draw(4))).await;
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("can never be made"), "{error}");
}

async fn of_two_who_draw_the_last_unit_one_gets_it(world: World) {
    drawn(&*world.store, draw(2)).await;
    let outcomes = at_once(&world, drawing(draw(1)), drawing(draw(1))).await;
    let made = |outcome: &&CommitOutcome| matches!(outcome, CommitOutcome::Committed(_));
    assert_eq!(outcomes.iter().filter(made).count(), 1, "{outcomes:?}");
}

async fn a_calendar_set_back_replenishes_nothing_twice(world: World) {
    let store = &*world.store;
    let first = drawn(store, draw(3)).await.at;
    world.set_back(Duration::from_secs(3600)).await;
    used_up(store, draw(1), first.plus(SECOND)).await;
}
