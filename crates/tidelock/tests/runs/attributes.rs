//! Attributes that a run changes while it runs.

use std::collections::BTreeMap;

use tidelock::prelude::*;
use tidelock::runs::{RunFilter, RunState};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

on_every_store!(
    listings_see_attributes_as_soon_as_they_are_set,
    attributes_survive_a_takeover_and_are_set_once,
    a_run_that_continues_as_new_or_fails_keeps_its_attributes,
    steps_that_set_attributes_at_the_same_time_both_land,
    an_attribute_that_does_not_fit_fails_the_step,
);

async fn with(tidelock: &Tidelock, name: &str, value: &str) -> Vec<String> {
    let filter = RunFilter::all().attribute(name, value);
    let runs = tidelock.runs().list(&filter).all().await.unwrap();
    runs.into_iter().map(|run| run.run.as_str().to_owned()).collect()
}

async fn attributes(tidelock: &Tidelock, run: &str) -> BTreeMap<String, String> {
    tidelock.runs().run(run).get().await.unwrap().attributes
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

async fn review(ctx: RunCtx, _: u32) -> Result<(), StepError> {
    ctx.set_attributes("in review", [("phase", "review")]).await?;
    ctx.wait_for_signal::<()>("approved").await?;
    ctx.set_attributes("published", [("phase", "public"), ("page", "7")]).await?;
    ctx.remove_attributes("forgotten", ["shop"]).await
}

/// RUN-55.
async fn listings_see_attributes_as_soon_as_they_are_set(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let run = tidelock.start("review", "page-7", &7).version(1).attribute("shop", "a");
    let run = run.await.unwrap();
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("review", review));
    until("it is in review", async || with(&tidelock, "phase", "review").await == ["page-7"]).await;
    assert_eq!(attributes(&tidelock, "page-7").await, map([("phase", "review"), ("shop", "a")]));
    run.signal("approved", &()).await.unwrap();
    run.result().await.unwrap();
    running.stop().await;
    assert_eq!(attributes(&tidelock, "page-7").await, map([("page", "7"), ("phase", "public")]));
    assert_eq!(with(&tidelock, "phase", "public").await, ["page-7"]);
    assert_eq!(with(&tidelock, "phase", "review").await, [""; 0], "no index entry is left");
    assert_eq!(with(&tidelock, "shop", "a").await, [""; 0]);
    assert_eq!(run.get().await.unwrap().state, RunState::Completed);
}

/// RUN-55. The second process replays the first step, and ends the run.
async fn attributes_survive_a_takeover_and_are_set_once(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let run = here.start("review", "page-7", &7).version(1).await.unwrap();
    let running = Running::start(here.app().worker(brisk("one")).workflow("review", review));
    until("it is in review", async || with(&here, "phase", "review").await == ["page-7"]).await;
    running.stop().await;
    let running = Running::start(there.app().worker(brisk("two")).workflow("review", review));
    run.signal("approved", &()).await.unwrap();
    run.result().await.unwrap();
    running.stop().await;
    assert_eq!(attributes(&there, "page-7").await, map([("page", "7"), ("phase", "public")]));
    let history = run.timeline(None, 100).await.unwrap().entries;
    let named =
        |name: &str| history.iter().filter(|entry| entry.name.as_deref() == Some(name)).count();
    assert_eq!((named("in review"), named("published")), (1, 1), "{history:?}");
}

/// RUN-55.
async fn a_run_that_continues_as_new_or_fails_keeps_its_attributes(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let round = async |ctx: RunCtx, nth: u32| -> Result<(), HandlerError> {
        ctx.set_attributes("count", [("round", nth.to_string())]).await?;
        match nth {
            3 => Err(HandlerError::fatal("it is enough")),
            _ => ctx.continue_as_new::<(), StepError>(&(nth + 1)).await.map_err(Into::into),
        }
    };
    let run = tidelock.start("round", "round-1", &1_u32).version(1).await.unwrap();
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("round", round));
    run.result().await.unwrap_err();
    running.stop().await;
    let there = run.get().await.unwrap();
    assert_eq!((there.generation, there.state), (3, RunState::Failed));
    assert_eq!(there.attributes, map([("round", "3")]));
    assert_eq!(with(&tidelock, "round", "3").await, ["round-1"]);
    assert_eq!(with(&tidelock, "round", "1").await, [""; 0]);
}

/// RUN-55.
async fn steps_that_set_attributes_at_the_same_time_both_land(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let both = async |ctx: RunCtx, _: u32| -> Result<(), StepError> {
        let (one, two) = tokio::join!(
            ctx.set_attributes("one", [("one", "1")]),
            ctx.set_attributes("two", [("two", "2")]),
        );
        one.and(two)
    };
    let run = tidelock.start("both", "both-1", &1_u32).version(1).await.unwrap();
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("both", both));
    run.result().await.unwrap();
    running.stop().await;
    assert_eq!(attributes(&tidelock, "both-1").await, map([("one", "1"), ("two", "2")]));
}

/// RUN-55, LIMIT-1.
async fn an_attribute_that_does_not_fit_fails_the_step(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let long = async |ctx: RunCtx, _: u32| -> Result<(), StepError> {
        ctx.set_attributes("long", [("long", "x".repeat(2_000))]).await
    };
    let run = tidelock.start("long", "long-1", &1_u32).version(1).await.unwrap();
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("long", long));
    let error = run.result().await.unwrap_err().to_string();
    running.stop().await;
    assert!(error.contains("long"), "{error}");
    assert!(attributes(&tidelock, "long-1").await.is_empty());
}
