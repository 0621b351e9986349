//! Termination of a run with its children.

use tidelock::prelude::*;
use tidelock::runs::{RunError, RunState};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

on_every_store!(
    a_run_is_terminated_with_all_its_descendants,
    an_interrupted_termination_goes_on_with_the_children,
    children_of_a_run_that_has_ended_otherwise_are_left_alone,
);

/// Starts children by this plan, a level of names with each step, and waits.
async fn family(ctx: RunCtx, plan: Vec<Vec<String>>) -> Result<u32, StepError> {
    let Some((names, rest)) = plan.split_first() else {
        return ctx.wait_for_signal::<u32>("go").await;
    };
    let rest = rest.to_vec();
    let ctx = &ctx;
    let children = names.iter().map(|name| {
        let rest = rest.clone();
        async move { ctx.child(name, "family", &rest).typed::<u32>().await }
    });
    Ok(futures_util::future::try_join_all(children).await?.into_iter().sum())
}

fn plan() -> Vec<Vec<String>> {
    [&["a", "b"][..], &["c"]].map(|names| names.iter().map(|&it| it.to_owned()).collect()).to_vec()
}

const DESCENDANTS: [&str; 4] = ["p/a", "p/a/c", "p/b", "p/b/c"];

async fn state(tidelock: &Tidelock, run: &str) -> Option<RunState> {
    tidelock.runs().run(run).get().await.ok().map(|run| run.state)
}

/// Starts the family, and another run, and waits until all of them are there.
async fn started(tidelock: &Tidelock) -> Running {
    tidelock.start("family", "p", &plan()).version(1).await.unwrap();
    tidelock.start("family", "other", &Vec::<Vec<String>>::new()).version(1).await.unwrap();
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("family", family));
    for run in DESCENDANTS {
        let is_there = async || state(tidelock, run).await.is_some();
        until(&format!("{run} is started"), is_there).await;
    }
    running
}

/// RUN-56.
async fn a_run_is_terminated_with_all_its_descendants(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = started(&tidelock).await;
    let run = tidelock.runs().run("p");
    assert_eq!(run.terminate_with_children("enough").await.unwrap(), 4);
    for run in DESCENDANTS.into_iter().chain(["p"]) {
        assert_eq!(state(&tidelock, run).await, Some(RunState::Terminated), "{run}");
    }
    assert_eq!(state(&tidelock, "other").await, Some(RunState::Open));
    assert_eq!(run.terminate_with_children("enough").await.unwrap(), 0, "again");
    running.stop().await;
}

/// RUN-56. As if the caller had died after the first commits.
async fn an_interrupted_termination_goes_on_with_the_children(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = started(&tidelock).await;
    for run in ["p", "p/a"] {
        tidelock.runs().run(run).terminate("enough").await.unwrap();
    }
    assert_eq!(state(&tidelock, "p/b").await, Some(RunState::Open), "children continue by choice");
    let run = tidelock.runs().run("p");
    assert_eq!(run.terminate_with_children("enough").await.unwrap(), 3);
    for run in DESCENDANTS {
        assert_eq!(state(&tidelock, run).await, Some(RunState::Terminated), "{run}");
    }
    running.stop().await;
}

/// RUN-56.
async fn children_of_a_run_that_has_ended_otherwise_are_left_alone(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = started(&tidelock).await;
    tidelock.runs().run("p/a/c").signal("go", &7).await.unwrap();
    until("it completes", async || state(&tidelock, "p/a").await == Some(RunState::Completed))
        .await;
    let ended = tidelock.runs().run("p/a").terminate_with_children("enough").await;
    assert!(matches!(ended, Err(RunError::Ended { .. })), "{ended:?}");
    assert_eq!(tidelock.runs().run("p").terminate_with_children("enough").await.unwrap(), 2);
    assert_eq!(state(&tidelock, "p/a").await, Some(RunState::Completed));
    assert_eq!(state(&tidelock, "p/b/c").await, Some(RunState::Terminated));
    running.stop().await;
}
