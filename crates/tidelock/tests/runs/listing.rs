//! Lists of runs.

use std::collections::BTreeSet;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::runs::{RunFilter, RunState};
use tidelock_test_stage::{TestStore, on_every_store, past, until};

on_every_store!(
    runs_are_found_by_state_workflow_and_attributes,
    a_listing_is_newest_first_and_its_pages_hold_each_run_once,
    runs_are_found_by_the_time_of_their_start,
    a_page_of_no_runs_is_refused,
);

async fn start(tidelock: &Tidelock, workflow: &str, run: &str, shop: &str) {
    let start = tidelock.start(workflow, run, &json!({})).version(1).attribute("shop", shop);
    start.attribute("kind", "a/b=c%").await.unwrap();
    // The next one starts at another time.
    let now = tidelock.store().now().await.unwrap();
    until("time has passed", async || tidelock.store().now().await.unwrap() > now).await;
}

async fn listed(tidelock: &Tidelock, filter: RunFilter) -> Vec<String> {
    let runs = tidelock.runs().list(&filter).all().await.unwrap();
    runs.iter().map(|run| run.run.to_string()).filter(|run| !past::left(run)).collect()
}

/// RUN-40.
async fn runs_are_found_by_state_workflow_and_attributes(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for (workflow, run, shop) in [
        ("checkout", "c/1", "7"),
        ("checkout", "c/2", "8"),
        ("checkout-2", "d", "7"),
        ("ship", "s", "7"),
    ] {
        start(&tidelock, workflow, run, shop).await;
    }
    tidelock.runs().run("c/2").terminate("enough").await.unwrap();
    let all = RunFilter::all;
    assert_eq!(listed(&tidelock, all()).await, ["s", "d", "c/2", "c/1"]);
    assert_eq!(listed(&tidelock, all().workflow("checkout")).await, ["c/2", "c/1"]);
    assert_eq!(listed(&tidelock, all().state(RunState::Open)).await, ["s", "d", "c/1"]);
    let open = all().state(RunState::Open).workflow("checkout");
    assert_eq!(listed(&tidelock, open).await, ["c/1"]);
    let ended = all().state(RunState::Terminated).state(RunState::Completed);
    assert_eq!(listed(&tidelock, ended).await, ["c/2"]);
    assert_eq!(listed(&tidelock, all().attribute("shop", "7")).await, ["s", "d", "c/1"]);
    let both = all().attribute("shop", "8").attribute("kind", "a/b=c%");
    assert_eq!(listed(&tidelock, both.clone()).await, ["c/2"]);
    assert!(listed(&tidelock, both.state(RunState::Open)).await.is_empty());
    assert!(listed(&tidelock, all().attribute("shop", "70")).await.is_empty());
    assert!(listed(&tidelock, all().workflow("check")).await.is_empty());
}

/// RUN-40.
async fn a_listing_is_newest_first_and_its_pages_hold_each_run_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for nth in 0..25 {
        let workflow = ["a", "b", "c"][nth % 3];
        start(&tidelock, workflow, &format!("run-{nth:02}"), "7").await;
    }
    for filter in [RunFilter::all(), RunFilter::all().attribute("shop", "7")] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = tidelock.runs().list(&filter).limit(4).after(after).await.unwrap();
            assert!(page.items.len() <= 4);
            seen.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        seen.retain(|run| !past::left(run.run.as_str()));
        let names: BTreeSet<_> = seen.iter().map(|run| run.run.clone()).collect();
        assert_eq!((seen.len(), names.len()), (25, 25), "each once");
        assert!(seen.windows(2).all(|two| two[0].started_at >= two[1].started_at), "newest first");
    }
}

/// RUN-40.
async fn runs_are_found_by_the_time_of_their_start(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for run in ["1", "2", "3", "4"] {
        start(&tidelock, "w", run, "7").await;
    }
    let started = async |run: &str| tidelock.runs().run(run).get().await.unwrap().started_at;
    let (second, fourth) = (started("2").await, started("4").await);
    for filter in
        [RunFilter::all(), RunFilter::all().workflow("w"), RunFilter::all().attribute("shop", "7")]
    {
        assert_eq!(listed(&tidelock, filter.clone().since(second)).await, ["4", "3", "2"]);
        assert_eq!(listed(&tidelock, filter.clone().before(fourth)).await, ["3", "2", "1"]);
        assert_eq!(listed(&tidelock, filter.since(second).before(fourth)).await, ["3", "2"]);
    }
}

/// LIMIT-1. An empty page would never lead to the next one.
async fn a_page_of_no_runs_is_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let refused = tidelock.runs().list(&RunFilter::all()).limit(0).await.unwrap_err();
    assert!(refused.to_string().contains("a page of 0 runs; it has at least 1"), "{refused}");
    tidelock.runs().list(&RunFilter::all()).limit(usize::MAX).await.unwrap();
}
