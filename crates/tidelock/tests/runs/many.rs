//! More runs than fit in a page.

use serde_json::json;
use tidelock::doctor::{Doctor, Thresholds};
use tidelock::prelude::*;
use tidelock::runs::{RunFilter, RunState, RunStatus};
use tidelock::store::QueueName;
use tidelock_test_stage::{TestStore, many_gone, many_items, on_every_store, past};

on_every_store!(
    open_runs_are_found_behind_any_number_that_have_ended,
    a_run_stands_where_it_does_however_many_others_there_are,
);

/// Starts so many runs of an unregistered workflow.
async fn started(tidelock: &Tidelock, count: usize) {
    for nth in 0..count {
        tidelock.start("checkout", format!("run-{nth}"), &json!({})).version(1).await.unwrap();
    }
}

/// Schedule 102. RUN-40.
async fn open_runs_are_found_behind_any_number_that_have_ended(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    started(&tidelock, 4).await;
    // What newer runs leave in the index of open ones once they have ended.
    many_gone(&**tidelock.store(), "~run-index/open/checkout/0").await;
    let runs = tidelock.runs();
    let (open, all) = (RunFilter::all().state(RunState::Open), RunFilter::all());
    let checkout = open.clone().workflow("checkout");
    let lists =
        [runs.list(&open), runs.list(&checkout), runs.list(&open).limit(2), runs.list(&all)];
    for list in lists {
        let listed = format!("{list:?}");
        let runs = list.all().await.unwrap().into_iter().map(|run| run.run.to_string());
        let mut found: Vec<_> = runs.filter(|run| !past::left(run)).collect();
        found.sort();
        assert_eq!(found, ["run-0", "run-1", "run-2", "run-3"], "{listed}");
    }
    let bounds = Thresholds { runs: 2, ..Thresholds::default() };
    let diagnosis = Doctor::over(tidelock.store().clone()).within(bounds).examine().await.unwrap();
    let unfinished = diagnosis
        .findings
        .iter()
        .any(|finding| finding.what.contains("only the 2 newest open runs were checked"));
    assert!(unfinished, "{:?}", diagnosis.findings);
}

/// RUN-35.
async fn a_run_stands_where_it_does_however_many_others_there_are(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    started(&tidelock, 1).await;
    let run = tidelock.runs().run("run-0");
    assert!(matches!(run.status().await.unwrap(), RunStatus::Due { .. }));
    let queue = QueueName::new("~runs/checkout@1").unwrap();
    many_items(&**tidelock.store(), &queue, "a").await;
    let standing = run.status().await.unwrap();
    assert!(matches!(standing, RunStatus::Due { .. }), "{standing:?}");
}
