//! Rebuilds of projections beside the rows that are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::{
    ProjectionInfo, ReactionFilter, RebuildOutcome, ResetEffects, SkipOutcome,
};
use tidelock::store::{RecordQuery, StoreExt, StoredEvent};
use tidelock::{AppBuilder, When};
use tidelock_test_stage::{Running, TestStore, append, brisk, on_every_store, until};

use crate::stage::{until_blocked, until_quiet};

on_every_store!(
    all_rows_change_at_once_when_the_last_one_is_complete,
    both_rows_follow_new_events_during_a_rebuild,
    a_rebuild_goes_on_after_its_process_died,
    a_fold_that_fails_stops_the_rebuild_and_nothing_else,
    a_rebuild_that_is_given_up_leaves_the_rows_alone,
    a_blocked_target_is_tried_again_and_a_skipped_event_left_out,
    a_reset_during_a_rebuild_is_in_both_rows,
    only_a_registered_projection_is_rebuilt,
    computed_targets_are_rebuilt_in_the_order_of_the_feed,
);

/// What a fold of this version makes of the sales of a shop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    version: u32,
    units: Vec<i64>,
}

impl Row {
    fn of(version: u32, units: impl IntoIterator<Item = i64>) -> Self {
        Self { version, units: units.into_iter().collect() }
    }
}

fn units(event: &StoredEvent) -> i64 {
    event.payload.to::<serde_json::Value>().unwrap()["units"].as_i64().unwrap()
}

/// An application whose fold writes this version.
fn app(tidelock: &Tidelock, stage: &TestStore, version: u32) -> AppBuilder {
    let fold = move |row: &mut Row, event: StoredEvent| {
        row.version = version;
        row.units.push(units(&event));
    };
    let source = on_any().of_types(["sold"]).lease(stage.lease());
    let app = tidelock.app().worker(brisk(&format!("v{version}"))).route_lease(stage.lease());
    app.projection("totals", source, fold)
}

async fn sell(tidelock: &Tidelock, shop: &str, units: i64) {
    append(tidelock, shop, "sold", &json!({ "units": units })).await;
}

async fn row(tidelock: &Tidelock, shop: &str) -> Option<Row> {
    tidelock.reactions().row("totals", shop).await.unwrap()
}

async fn until_row(tidelock: &Tidelock, shop: &str, is: Row) {
    until(&format!("the row of {shop} is {is:?}"), async || {
        row(tidelock, shop).await.as_ref() == Some(&is)
    })
    .await;
}

async fn info(tidelock: &Tidelock) -> ProjectionInfo {
    tidelock.reactions().projection("totals").await.unwrap().unwrap()
}

async fn rebuild(tidelock: &Tidelock) {
    let outcome = tidelock.reactions().rebuild("totals").await.unwrap();
    assert_eq!(outcome, RebuildOutcome::Started);
}

/// Waits until the rebuild, and the deletion of what it replaced, are over.
async fn until_rebuilt(tidelock: &Tidelock) {
    until("the rebuild is complete", async || {
        let info = info(tidelock).await;
        assert_eq!(info.rebuild.as_ref().and_then(|it| it.error.clone()), None);
        info.rebuild.is_none() && !info.deleting
    })
    .await;
}

async fn records(tidelock: &Tidelock, prefix: &str) -> usize {
    tidelock.store().rows(RecordQuery::prefix(prefix)).all().await.unwrap().len()
}

/// Keeps a target from being handled, so that the rebuild is not complete before it is released.
async fn defer(tidelock: &Tidelock, shop: &str, by: u64) {
    let filter = ReactionFilter::named("totals").target(shop);
    let until = When::In(Duration::from_secs(by));
    assert_eq!(tidelock.reactions().defer(&filter, until).await.unwrap().matched, 1);
}

/// REACT-30. With several pages of targets, while more is sold, and read all the time.
async fn all_rows_change_at_once_when_the_last_one_is_complete(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let shops: Vec<String> = (0..230).map(|nth| format!("shop-{nth:03}")).collect();
    for shop in &shops {
        sell(&tidelock, shop, 1).await;
    }
    let running = Running::start(app(&tidelock, &stage, 1));
    until_quiet(&tidelock, "totals").await;
    until_row(&tidelock, "shop-229", Row::of(1, [1])).await;
    running.stop().await;
    rebuild(&tidelock).await;
    let begun = info(&tidelock).await.rebuild.unwrap();
    assert_eq!((begun.targets, begun.rebuilt, begun.lag, begun.partial), (230, 0, 230, false));

    let running = Running::start(app(&tidelock, &stage, 2));
    let reactions = tidelock.reactions();
    let sold = AtomicI64::new(1);
    until("the new rows are read", async || {
        let is_over = info(&tidelock).await.rebuild.is_none();
        let rows = reactions.rows::<Row>("totals").limit(1_000).await.unwrap().items;
        // The fold of now handles new events on the old rows, too: those of one shop.
        let is_new = |(shop, row): &&(String, Row)| row.version == 2 && shop != "shop-007";
        let new = rows.iter().filter(is_new).count();
        assert!(rows.len() == 230 && [0, 229].contains(&new), "all of one kind: {rows:?}");
        assert!(!is_over || new == 229, "what was read before is not read again: {rows:?}");
        sell(&tidelock, "shop-007", sold.fetch_add(1, Ordering::Relaxed)).await;
        is_over
    })
    .await;
    let sold = sold.into_inner();
    let rows = reactions.rows::<Row>("totals").all().await.unwrap();
    assert!(rows.iter().all(|(_, row)| row.version == 2), "{rows:?}");
    until_rebuilt(&tidelock).await;
    until_row(&tidelock, "shop-007", Row::of(2, [1].into_iter().chain(1..sold))).await;
    assert_eq!(records(&tidelock, "projection/totals/").await, 0, "the old rows are deleted");
    assert_eq!(records(&tidelock, "~projection-rebuilt/").await, 0);

    // Another one, from there.
    rebuild(&tidelock).await;
    until_rebuilt(&tidelock).await;
    assert_eq!(reactions.rows::<Row>("totals").all().await.unwrap().len(), 230);
    running.stop().await;
}

/// REACT-30. Old and new targets; the rows that are read follow new events meanwhile.
async fn both_rows_follow_new_events_during_a_rebuild(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for shop in ["a", "b", "z"] {
        sell(&tidelock, shop, 1).await;
    }
    let running = Running::start(app(&tidelock, &stage, 1));
    until_row(&tidelock, "z", Row::of(1, [1])).await;
    until_quiet(&tidelock, "totals").await;
    running.stop().await;
    defer(&tidelock, "z", 3_600).await;
    rebuild(&tidelock).await;
    let running = Running::start(app(&tidelock, &stage, 2));
    for _ in 0..3 {
        sell(&tidelock, "a", 2).await;
        sell(&tidelock, "new", 2).await;
    }
    until_row(&tidelock, "a", Row::of(2, [1, 2, 2, 2])).await;
    until_row(&tidelock, "new", Row::of(2, [2, 2, 2])).await;
    assert_eq!(row(&tidelock, "b").await, Some(Row::of(1, [1])), "it is the old row still");
    assert!(info(&tidelock).await.rebuild.is_some());
    let underway = tidelock.reactions().rebuild("totals").await.unwrap();
    assert_eq!(underway, RebuildOutcome::Underway);
    defer(&tidelock, "z", 0).await;
    until_rebuilt(&tidelock).await;
    for (shop, units) in
        [("a", vec![1, 2, 2, 2]), ("b", vec![1]), ("new", vec![2, 2, 2]), ("z", vec![1])]
    {
        assert_eq!(row(&tidelock, shop).await, Some(Row::of(2, units)), "{shop}");
    }
    running.stop().await;
}

/// REACT-30. REACT-31.
async fn a_rebuild_goes_on_after_its_process_died(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for nth in 0..150 {
        sell(&tidelock, &format!("shop-{nth:03}"), nth).await;
    }
    sell(&tidelock, "z", 1).await;
    let running = Running::start(app(&tidelock, &stage, 1));
    until_quiet(&tidelock, "totals").await;
    until_row(&tidelock, "z", Row::of(1, [1])).await;
    running.stop().await;
    defer(&tidelock, "z", 3_600).await;
    rebuild(&tidelock).await;
    let first = Running::start(app(&tidelock, &stage, 2));
    until("a page of targets is rebuilt", async || {
        info(&tidelock).await.rebuild.is_some_and(|it| it.rebuilt >= 100)
    })
    .await;
    first.abandon();
    sell(&tidelock, "shop-003", 4).await;
    let rebuilt = info(&tidelock).await.rebuild.unwrap().rebuilt;
    let other = stage.tidelock().await;
    let second = Running::start(app(&other, &stage, 2));
    until_row(&tidelock, "shop-003", Row::of(2, [3, 4])).await;
    assert!(info(&tidelock).await.rebuild.unwrap().rebuilt >= rebuilt, "nothing is done again");
    defer(&tidelock, "z", 0).await;
    until_rebuilt(&tidelock).await;
    assert_eq!(row(&tidelock, "shop-003").await, Some(Row::of(2, [3, 4])));
    assert_eq!(row(&tidelock, "shop-149").await, Some(Row::of(2, [149])));
    second.stop().await;
}

/// REACT-31. Then a fold that does not fail builds them from the start.
async fn a_fold_that_fails_stops_the_rebuild_and_nothing_else(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for units in [1, 13] {
        sell(&tidelock, "a", units).await;
        sell(&tidelock, "b", 1).await;
    }
    let running = Running::start(app(&tidelock, &stage, 1));
    until_row(&tidelock, "a", Row::of(1, [1, 13])).await;
    until_row(&tidelock, "b", Row::of(1, [1, 1])).await;
    until_quiet(&tidelock, "totals").await;
    running.stop().await;
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let fold = move |row: &mut Row, event: StoredEvent| {
        assert!(units(&event) != 13 || !failing.load(Ordering::Relaxed), "no thirteens");
        *row = Row { version: 3, ..std::mem::take(row) };
        row.units.push(units(&event));
    };
    let app = tidelock.app().worker(brisk("v3")).projection("totals", on_any(), fold);
    let running = Running::start(app);
    rebuild(&tidelock).await;
    until("the rebuild has failed", async || {
        info(&tidelock).await.rebuild.is_some_and(|it| it.error.is_some())
    })
    .await;
    let error = info(&tidelock).await.rebuild.unwrap().error.unwrap();
    assert!(error.contains("target \"a\"") && error.contains("no thirteens"), "{error}");
    sell(&tidelock, "a", 2).await;
    sell(&tidelock, "b", 2).await;
    until_row(&tidelock, "a", Row::of(3, [1, 13, 2])).await;
    until_row(&tidelock, "b", Row::of(3, [1, 1, 2])).await;
    fails.store(false, Ordering::Relaxed);
    rebuild(&tidelock).await;
    until_rebuilt(&tidelock).await;
    assert_eq!(row(&tidelock, "a").await, Some(Row::of(3, [1, 13, 2])));
    assert_eq!(row(&tidelock, "b").await, Some(Row::of(3, [1, 1, 2])));
    assert_eq!(records(&tidelock, "projection:1/").await, 0, "what failed is deleted, too");
    running.stop().await;
}

/// REACT-31.
async fn a_rebuild_that_is_given_up_leaves_the_rows_alone(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for shop in ["a", "z"] {
        sell(&tidelock, shop, 1).await;
    }
    let running = Running::start(app(&tidelock, &stage, 1));
    until_row(&tidelock, "a", Row::of(1, [1])).await;
    until_row(&tidelock, "z", Row::of(1, [1])).await;
    until_quiet(&tidelock, "totals").await;
    running.stop().await;
    defer(&tidelock, "z", 3_600).await;
    rebuild(&tidelock).await;
    let running = Running::start(app(&tidelock, &stage, 2));
    until("a new row", async || records(&tidelock, "projection:1/totals/a").await == 1).await;
    assert!(tidelock.reactions().cancel_rebuild("totals").await.unwrap());
    assert!(!tidelock.reactions().cancel_rebuild("totals").await.unwrap());
    until_rebuilt(&tidelock).await;
    for left in ["projection:", "~projection-rebuilt/"] {
        assert_eq!(records(&tidelock, left).await, 0, "{left}");
    }
    sell(&tidelock, "a", 2).await;
    until_row(&tidelock, "a", Row::of(2, [1, 2])).await;
    assert_eq!(row(&tidelock, "z").await, Some(Row::of(1, [1])));
    running.stop().await;
}

/// REACT-31. The fold cannot read one event: its target is blocked, and an operator skips the event
/// of another one.
async fn a_blocked_target_is_tried_again_and_a_skipped_event_left_out(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for shop in ["blocked", "skipped"] {
        for units in [1, 13, 2] {
            sell(&tidelock, shop, units).await;
        }
    }
    let fixed = Arc::new(AtomicBool::new(false));
    let is_fixed = fixed.clone();
    let fold = move |row: &mut Row, event: StoredEvent| {
        let is_fine = is_fixed.load(Ordering::Relaxed) && event.stream.as_str() == "blocked";
        assert!(is_fine || units(&event) != 13, "no thirteens");
        row.units.push(units(&event));
    };
    let source = on_any().retry(Retry::attempts(1));
    let app = tidelock.app().worker(brisk("one")).projection("totals", source, fold);
    let running = Running::start(app);
    until_blocked(&tidelock, "totals", "blocked").await;
    let seen = until_blocked(&tidelock, "totals", "skipped").await;
    let reactions = tidelock.reactions();
    assert_eq!(reactions.skip(&seen, "a test").await.unwrap(), SkipOutcome::Requested);
    until_row(&tidelock, "skipped", Row::of(0, [1, 2])).await;
    fixed.store(true, Ordering::Relaxed);
    rebuild(&tidelock).await;
    until_rebuilt(&tidelock).await;
    until_row(&tidelock, "blocked", Row::of(0, [1, 13, 2])).await;
    assert_eq!(row(&tidelock, "skipped").await, Some(Row::of(0, [1, 2])));
    running.stop().await;
}

/// REACT-16. REACT-30.
async fn a_reset_during_a_rebuild_is_in_both_rows(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for shop in ["a", "z"] {
        for units in [1, 2] {
            sell(&tidelock, shop, units).await;
        }
    }
    let running = Running::start(app(&tidelock, &stage, 1));
    until_row(&tidelock, "a", Row::of(1, [1, 2])).await;
    until_row(&tidelock, "z", Row::of(1, [1, 2])).await;
    until_quiet(&tidelock, "totals").await;
    running.stop().await;
    defer(&tidelock, "z", 3_600).await;
    rebuild(&tidelock).await;
    let running = Running::start(app(&tidelock, &stage, 2));
    until("a new row", async || records(&tidelock, "projection:1/totals/a").await == 1).await;
    let filter = ReactionFilter::named("totals").target("a");
    tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap();
    until_row(&tidelock, "a", Row::of(2, [1, 2])).await;
    sell(&tidelock, "a", 3).await;
    until_row(&tidelock, "a", Row::of(2, [1, 2, 3])).await;
    defer(&tidelock, "z", 0).await;
    until_rebuilt(&tidelock).await;
    assert_eq!(row(&tidelock, "a").await, Some(Row::of(2, [1, 2, 3])));
    running.stop().await;
}

/// REACT-30.
async fn only_a_registered_projection_is_rebuilt(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let reactions = tidelock.reactions();
    let nothing = async |_: StoredEvent, _: ReactionCtx| Ok(());
    let running = Running::start(app(&tidelock, &stage, 1).reaction("mail", on_any(), nothing));
    until("it is registered", async || !reactions.projections().all().await.unwrap().is_empty())
        .await;
    for name in ["mail", "total"] {
        assert_eq!(reactions.rebuild(name).await.unwrap(), RebuildOutcome::Unregistered);
        assert!(!reactions.cancel_rebuild(name).await.unwrap());
        assert_eq!(reactions.projection(name).await.unwrap(), None);
    }
    let names: Vec<_> = reactions.projections().all().await.unwrap();
    assert_eq!(names.iter().map(|it| &*it.projection).collect::<Vec<_>>(), ["totals"]);
    // Without a target there is nothing to do.
    rebuild(&tidelock).await;
    until_rebuilt(&tidelock).await;
    running.stop().await;
}

/// REACT-17. REACT-30.
async fn computed_targets_are_rebuilt_in_the_order_of_the_feed(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for nth in 0..120 {
        sell(&tidelock, &format!("shop-{}", nth % 3), nth).await;
    }
    let start = |version: u32| {
        let fold = move |row: &mut Row, event: StoredEvent| {
            row.version = version;
            row.units.push(units(&event));
        };
        let source = on_any().to(|event: &StoredEvent| (event.version.get() % 2).to_string());
        let app = tidelock.app().worker(brisk("one")).projection("totals", source, fold);
        Running::start(app)
    };
    let running = start(1);
    let half =
        |version, odd: i64| Row::of(version, (0..120).filter(move |nth| (nth / 3 + 1) % 2 == odd));
    until_row(&tidelock, "1", half(1, 1)).await;
    until_row(&tidelock, "0", half(1, 0)).await;
    running.stop().await;
    rebuild(&tidelock).await;
    let running = start(2);
    until_rebuilt(&tidelock).await;
    assert_eq!(row(&tidelock, "0").await, Some(half(2, 0)));
    assert_eq!(row(&tidelock, "1").await, Some(half(2, 1)));
    running.stop().await;
}
