//! What keeps runs from moving.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::AppBuilder;
use tidelock::When;
use tidelock::prelude::*;
use tidelock::runs::{OnUnknownOutcome, RunStatus, Schedule, Workflow};
use tidelock::store::{
    Adjustment, Commit, Item, ItemFilter, ItemQuery, ItemRef, Lease, LeaseRequest, QueueName,
    Settlement, Store, Wake, WorkerName,
};
use tidelock_test_stage::{Running, brisk, until};
use tokio::sync::mpsc::UnboundedSender;

use super::{commands, findings, only, paste, remedy};
use crate::harness::Shop;

const HOUR: Duration = Duration::from_secs(3_600);

on_files_and_postgres!(
    runs_without_a_worker_are_found,
    a_terminated_run_is_no_finding,
    a_step_with_an_unknown_outcome_is_found_and_resolved,
    a_parked_run_is_a_warning_first_then_an_error_and_is_resumed,
    a_child_whose_parent_has_ended_is_found,
    run_maintenance_without_a_worker_is_found,
);

fn runs_without_a_worker_are_found(shop: &Shop) {
    shop.with(|store| async move {
        Tidelock::over(store).start("checkout", "checkout-1", &json!(7)).version(1).await.unwrap();
    });
    let (what, remedy) = only(shop, "unserved");
    assert!(
        what.starts_with(
            "workflow \"checkout\", version 1: no worker takes its due work: 1 run, the first for"
        ),
        "{what}"
    );
    assert!(remedy.contains("registers that version"), "{remedy}");
}

/// CMD-5. What is left of a terminated run is no problem, whether the run was due,
/// parked or blocked; and a worker that comes takes it away.
fn a_terminated_run_is_no_finding(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        for run in ["ship-1", "ship-2", "ship-3"] {
            tidelock.start("ship", run, &json!(null)).version(1).await.unwrap();
        }
    });
    tries(shop, false);
    shop.with(|store| async move { block_run(&*store, "ship-3").await });
    let (_, found) = findings(shop, &[]);
    let kinds: Vec<_> = found.iter().map(|finding| finding["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"parked"), "{found:?}");
    for run in ["ship-1", "ship-2", "ship-3"] {
        shop.ok(&["cancel", run, "--terminate", "-y"]);
    }
    assert_eq!(findings(shop, &[]).1, [json!(null); 0]);
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store.clone());
        let running = Running::start(shipping(&tidelock, true));
        until("no item waits", async || {
            let items =
                store.items(ItemQuery::new(ItemFilter::queue("~runs/ship@1"))).await.unwrap();
            items.items.iter().all(Item::is_idle)
        })
        .await;
        running.stop().await;
    });
}

/// Blocks the item of a run, as if its workers had died too often.
async fn block_run(store: &dyn Store, run: &str) {
    let (queue, worker) =
        (QueueName::new("~runs/ship@1").unwrap(), WorkerName::new("worker-7").unwrap());
    let hold = Adjustment::Defer { until: When::NOW };
    store.adjust(ItemFilter::queue(queue.as_str()), hold).await.unwrap();
    let leased =
        store.lease(LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 10)).await.unwrap();
    let settle = |commit: Commit, lease: &Lease| match lease.item.key.as_str() == run {
        true => commit.settle(Settlement::block(lease.token(), "its processes died")),
        false => commit.settle(Settlement::retry(lease.token(), HOUR, "it was parked")),
    };
    let commit = leased.leases.iter().fold(Commit::new(), settle);
    store.commit(commit).await.unwrap().committed().unwrap();
}

/// A program with a step that must not be carried out twice, and that never ends.
fn charging(tidelock: &Tidelock, begun: &UnboundedSender<()>) -> AppBuilder {
    let begun = begun.clone();
    let checkout = move |ctx: RunCtx, _: Value| {
        let begun = begun.clone();
        async move {
            let charge = |_| {
                begun.send(()).expect("the test waits for it");
                std::future::pending::<Result<String, HandlerError>>()
            };
            ctx.step("charge", charge).at_most_once(OnUnknownOutcome::Ask).await
        }
    };
    let options = Workflow::new("checkout").options().lease(Duration::from_millis(300));
    tidelock.app().worker(brisk("teller")).workflow(options, checkout)
}

fn a_step_with_an_unknown_outcome_is_found_and_resolved(shop: &Shop) {
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let dying = tokio::runtime::Runtime::new().unwrap();
    let (url, begun_there) = (shop.url.clone(), begun.clone());
    dying.spawn(async move {
        let tidelock = Tidelock::open(&url).await.unwrap();
        charging(&tidelock, &begun_there).build().unwrap().run().await
    });
    shop.with(|store| async move {
        Tidelock::over(store)
            .start("checkout", "checkout-1", &json!(null))
            .version(1)
            .await
            .unwrap();
        begins.recv().await.expect("the step begins");
    });
    dying.shutdown_background();
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        let running = Running::start(charging(&tidelock, &begun));
        let run = tidelock.runs().run("checkout-1");
        until("a verdict is needed", async || {
            matches!(run.status().await.unwrap(), RunStatus::Waiting { .. })
        })
        .await;
        running.stop().await;
    });
    let (what, remedy) = only(shop, "unknown_outcome");
    assert!(what.contains("run \"checkout-1\": its worker died during step \"charge\""), "{what}");
    assert!(remedy.contains("tidelock resolve checkout-1 charge --done RESULT"), "{remedy}");
    let (_, found) = findings(shop, &[]);
    let asked =
        found.iter().find(|finding| finding["kind"] == "unknown_outcome").expect("it is there");
    let resolved = paste(shop, &commands(asked)[0], &[("RESULT", "'\"paid\"'")]);
    assert_eq!(resolved.code, 0, "{asked}: {resolved:?}");
    assert!(
        !findings(shop, &[]).1.iter().any(|finding| finding["kind"] == "unknown_outcome"),
        "it is resolved"
    );
}

/// A program whose workflow panics until it is fixed.
fn shipping(tidelock: &Tidelock, fixed: bool) -> AppBuilder {
    let ship = move |_: RunCtx, _: Value| async move {
        assert!(fixed, "no such port");
        Ok::<_, StepError>("shipped".to_owned())
    };
    tidelock.app().worker(brisk("captain")).workflow("ship", ship)
}

/// Lets the program try once.
fn tries(shop: &Shop, fixed: bool) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        let running = Running::start(shipping(&tidelock, fixed));
        let run = tidelock.runs().run("ship-1");
        until("it was tried", async || {
            matches!(run.status().await.unwrap(), RunStatus::Parked { .. } | RunStatus::Ended(_))
        })
        .await;
        running.stop().await;
    });
}

/// CMD-5. CMD-7.
fn a_parked_run_is_a_warning_first_then_an_error_and_is_resumed(shop: &Shop) {
    shop.with(|store| async move {
        Tidelock::over(store).start("ship", "ship-1", &json!(null)).version(1).await.unwrap();
    });
    tries(shop, false);
    let (code, found) = findings(shop, &[]);
    assert_eq!((code, found.len()), (0, 1), "{found:?}");
    assert_eq!((&found[0]["kind"], &found[0]["severity"]), (&json!("parked"), &json!("warning")));
    for _ in 0..2 {
        assert!(shop.ok(&["resume", "ship-1"]).contains("aiting for a worker"));
        tries(shop, false);
    }
    let (what, cure) = only(shop, "parked");
    assert!(what.starts_with("run \"ship-1\": parked 3 times, is retried in"), "{what}");
    assert!(what.ends_with("the workflow panicked: no such port"), "{what}");
    let cure = cure.lines().last().unwrap().to_owned();
    assert!(cure.starts_with("tidelock resume ship-1 --store "), "{cure}");
    assert!(shop.ok(&["runs", "ship-1"]).contains("no such port"));
    let resumed = crate::harness::lines(&paste(shop, &format!("{cure} --json"), &[]).out);
    assert!(resumed[0]["status"]["due"].is_object(), "{resumed:?}");
    tries(shop, true);
    assert_eq!(shop.json(&["runs", "--state", "completed"])[0]["run"], json!("ship-1"));
    assert!(findings(shop, &[]).1.is_empty(), "it has moved on");
    assert!(shop.ok(&["resume", "ship-1"]).contains("shipped"), "one that has ended says so");
    assert_eq!(shop.run(&["resume", "ship-9"]).code, 4);
}

/// A program of which one workflow starts another, which waits for a signal.
fn family(tidelock: &Tidelock) -> AppBuilder {
    const HELPER: Workflow<Value, String> = Workflow::new("helper");
    let parent = async |ctx: RunCtx, _: Value| ctx.child("help", HELPER, &json!(null)).await;
    let helper = async |ctx: RunCtx, _: Value| ctx.wait_for_signal("go").await;
    let app = tidelock.app().worker(brisk("family"));
    app.workflow("parent", parent).workflow(HELPER, helper)
}

/// CMD-5.
fn a_child_whose_parent_has_ended_is_found(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        let running = Running::start(family(&tidelock));
        tidelock.start("parent", "p", &json!(null)).version(1).await.unwrap();
        let child = tidelock.runs().run("p/help");
        until("the child waits", async || {
            matches!(child.status().await, Ok(RunStatus::Waiting { .. }))
        })
        .await;
        running.stop().await;
    });
    assert!(findings(shop, &[]).1.is_empty(), "its parent waits for it");
    shop.ok(&["cancel", "p", "--terminate", "-y"]);
    let (_, found) = findings(shop, &[]);
    let orphan = found.iter().find(|finding| finding["kind"] == "orphaned").expect("it is found");
    assert_eq!(orphan["severity"], json!("warning"), "it continues, and blocks nothing");
    assert_eq!(orphan["subject"], json!("run \"p/help\""));
    assert!(
        orphan["what"]
            .as_str()
            .unwrap()
            .contains("run \"p\", which started it as \"help\", has ended")
    );
    assert!(orphan["since"].is_string(), "{orphan}");
    assert!(remedy(orphan).contains("tidelock cancel p/help --store "), "{orphan}");
    assert_eq!(paste(shop, &commands(orphan)[0], &[]).code, 0, "{orphan}");
}

/// CMD-5.
fn run_maintenance_without_a_worker_is_found(shop: &Shop) {
    shop.with(|store| async move {
        let removal = ItemRef::parse("~run-retention", "old-run").unwrap();
        store
            .commit(Commit::new().wake(Wake::at(removal, When::NOW)))
            .await
            .unwrap()
            .committed()
            .unwrap();
        let schedules = Tidelock::over(store.clone()).schedules();
        let daily = schedules
            .put("daily", Schedule::cron("* * * * * *").starts("count", &()))
            .await
            .unwrap();
        let due = daily.next.expect("it goes on");
        until("it is due", async || store.now().await.unwrap() > due).await;
    });
    let (what, remedy) = only(shop, "unserved");
    assert!(
        what.starts_with(
            "schedules: no worker starts the runs that are due: 1 schedule, the first for"
        ),
        "{what}"
    );
    assert!(remedy.contains("registers a workflow"), "{remedy}");
    let (what, _) = only(shop, "orphaned");
    assert!(
        what.starts_with("runs: no worker removes the ended ones whose retention is over: 1 run"),
        "{what}"
    );
}
