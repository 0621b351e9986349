//! Commands for runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock_test_stage::{Running, brisk, many_gone, until};

use crate::harness::Shop;

on_files_and_postgres!(
    runs_are_listed_shown_signalled_and_ended,
    runs_are_cancelled_and_terminated_in_bulk,
    the_history_of_a_run_is_a_file_that_can_be_replayed,
    a_retried_run_continues_at_the_failed_step,
    open_runs_are_listed_behind_any_number_of_ended_ones,
);

/// RUN-54. CMD-1. CMD-10.
fn runs_are_cancelled_and_terminated_in_bulk(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        for nth in 0..120 {
            let town = if nth < 110 { "north" } else { "south" };
            let start = tidelock.start("checkout", format!("order-{nth}"), &nth).version(1);
            start.attribute("town", town).await.unwrap();
        }
    });
    let open = || shop.json(&["runs", "--state", "open", "--all"]).len();
    let end = ["cancel", "--terminate", "--workflow", "checkout", "--attribute", "town=north"];
    assert_eq!(shop.run(&end).code, 2, "it asks first");
    let dry = shop.run(&[&end[..], &["--dry-run"]].concat());
    assert!(dry.code == 0 && dry.err.contains("110 runs would be terminated"), "{dry:?}");
    let young = shop.json(&[&end[..], &["--older-than", "1h", "-y"]].concat());
    assert_eq!(young, [json!({ "done": "terminated", "matched": 0, "changed": 0 })]);
    assert_eq!(shop.json(&[&end[..], &["--parked", "-y"]].concat())[0]["matched"], json!(0));
    assert_eq!(open(), 120, "nothing was done");
    assert_eq!(shop.ok(&[&end[..], &["-y"]].concat()), "terminated: 110 of 110 runs\n");
    assert_eq!(open(), 10);
    let rest = shop.ok(&["cancel", "--workflow", "checkout", "-y"]);
    assert_eq!(rest, "asked to cancel: 10 of 10 runs\n");
    let nothing = shop.ok(&["retry", "--workflow", "checkout"]);
    assert_eq!(nothing, "retried: 0 of 0 runs\n", "there is nothing to ask about");
    assert_eq!(shop.run(&["cancel", "--workflow", "chekcout"]).code, 4);
    for workflow in [["cancel", "--workflow", "chekcout"], ["retry", "--workflow", "chekcout"]] {
        let refused = shop.run(&[&workflow[..], &["-y"]].concat());
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("there is no workflow \"chekcout\""), "{refused:?}");
    }
    assert_eq!(shop.run(&["cancel", "order-1", "--workflow", "checkout"]).code, 2);
    assert_eq!(shop.run(&["cancel", "-y"]).code, 2, "without a name nothing is selected");
}

fn runs_are_listed_shown_signalled_and_ended(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        for id in ["checkout-1", "checkout-2"] {
            let start = tidelock.start("checkout", id, &json!(7)).version(1);
            start.attribute("shop", id).await.unwrap();
        }
    });
    let ids: Vec<_> = shop.json(&["runs"]).iter().map(|run| run["run"].clone()).collect();
    assert_eq!(ids, ["checkout-2", "checkout-1"]);
    assert_eq!(shop.json(&["runs", "--attribute", "shop=checkout-1"]).len(), 1);
    assert_eq!(shop.json(&["runs", "--state", "failed"]).len(), 0);
    assert!(shop.ok(&["runs", "checkout-1"]).contains("aiting for a worker"));
    assert!(
        shop.ok(&["signal", "checkout-1", "approve", "{\"by\":\"joe\"}", "--id", "1"])
            .contains("was sent signal")
    );
    assert!(shop.ok(&["cancel", "checkout-1"]).contains("is asked to cancel"));
    assert_eq!(shop.run(&["cancel", "checkout-2", "--terminate"]).code, 2, "it asks first");
    let dry = shop.run(&["cancel", "checkout-2", "--terminate", "--dry-run"]);
    assert_eq!(
        (dry.code, dry.err.contains("dry run: run \"checkout-2\" is terminated at once")),
        (0, true),
        "{dry:?}"
    );
    assert_eq!(shop.json(&["runs", "--state", "open"]).len(), 2, "nothing was done");
    assert_eq!(shop.run(&["cancel", "checkout-2", "--children", "-y"]).code, 2);
    let whole = ["cancel", "checkout-2", "--terminate", "--children"];
    let dry = shop.run(&[&whole[..], &["--dry-run"]].concat());
    assert!(dry.code == 0 && dry.err.contains("and its children are terminated"), "{dry:?}");
    let ended = shop.ok(&[&whole[..], &["-y", "--reason", "no stock"]].concat());
    assert_eq!(ended, "run \"checkout-2\" and 0 descendants are terminated\n");
    assert_eq!(shop.json(&["runs", "--state", "terminated"])[0]["run"], json!("checkout-2"));
    assert!(shop.ok(&["runs", "checkout-2"]).contains("no stock"));
    for args in [
        &["retry", "checkout-2"][..],
        &["cancel", "checkout-2"],
        &["runs", "checkout-9"],
        &["resolve", "checkout-1", "pay", "--rerun"],
    ] {
        let refused = shop.run(args);
        assert_eq!(refused.code, 4, "{args:?}: {refused:?}");
    }
    assert_eq!(shop.run(&["signal", "checkout-1", "approve", "{not json"]).code, 2);
    let early = shop.run(&["signal", "checkout-9", "approve", "--early"]);
    assert_eq!(
        (early.code, early.err.contains("there is no such run yet")),
        (0, true),
        "{early:?}"
    );
}

/// CMD-11.
fn the_history_of_a_run_is_a_file_that_can_be_replayed(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        tidelock.start("ordering", "order-1", &json!(7)).version(1).await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order-1.json");
    let path = file.to_str().unwrap();
    assert_eq!(shop.run(&["runs", "order-9", "--export", path]).code, 4, "there is no such run");
    assert!(!file.exists());
    let exported = shop.run(&["runs", "order-1", "--export", path]);
    assert!(exported.err.contains("exported 1 entries of run \"order-1\""), "{exported:?}");
    let history = std::fs::read_to_string(&file).unwrap();
    assert_eq!(shop.run(&["runs", "order-1", "--export", path]).code, 4, "it is there already");
    shop.ok(&["runs", "order-1", "--export", path, "--overwrite"]);
    assert_eq!(shop.ok(&["runs", "order-1", "--export", "-"]), history, "the same on the output");
    let waits = |ctx: RunCtx, _: Value| async move { ctx.wait_for_signal::<Value>("go").await };
    let replayed = tidelock::testing::replay("ordering", waits, &history);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(replayed).unwrap(), tidelock::testing::AfterReplay::Waits);
}

/// A program that reserves, which must not be repeated, and charges, which fails until it is fixed.
fn ordering(tidelock: &Tidelock, reserved: &Arc<AtomicUsize>, fixed: bool) -> AppBuilder {
    let reserved = reserved.clone();
    let order = move |ctx: RunCtx, _: Value| {
        let reserved = reserved.clone();
        async move {
            let reserve = |_| {
                std::future::ready(Ok::<_, HandlerError>(reserved.fetch_add(1, Ordering::SeqCst)))
            };
            ctx.step("reserve", reserve).await?;
            let charge = |_| async move {
                if fixed {
                    Ok("charged".to_owned())
                } else {
                    Err(HandlerError::fatal("the card is blocked"))
                }
            };
            ctx.step("charge", charge).await
        }
    };
    tidelock.app().worker(brisk("clerk")).workflow("order", order)
}

/// Lets the program drive the run to its end.
fn ends(shop: &Shop, reserved: &Arc<AtomicUsize>, fixed: bool) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        let running = Running::start(ordering(&tidelock, reserved, fixed));
        let run = tidelock.runs().run("order-1");
        until("it has ended", async || run.get().await.unwrap().state.is_ended()).await;
        running.stop().await;
    });
}

/// CMD-7.
fn a_retried_run_continues_at_the_failed_step(shop: &Shop) {
    let reserved = Arc::new(AtomicUsize::new(0));
    shop.with(|store| async move {
        Tidelock::over(store).start("order", "order-1", &json!(null)).version(1).await.unwrap();
    });
    assert_eq!(shop.run(&["retry", "order-1"]).code, 4, "it has not failed");
    ends(shop, &reserved, false);
    assert!(shop.ok(&["runs", "order-1"]).contains("the card is blocked"));
    let retried = shop.json(&["retry", "order-1", "--reason", "another card"]);
    assert_eq!(retried[0]["done"], json!("retried"));
    assert_eq!(shop.json(&["runs", "--state", "open"])[0]["run"], json!("order-1"));
    let twice = shop.run(&["retry", "order-1"]);
    assert_eq!(twice.code, 4, "{twice:?}");
    assert!(twice.err.contains("order-1") && twice.err.contains("try: tidelock runs"), "{twice:?}");
    ends(shop, &reserved, true);
    assert!(shop.ok(&["runs", "order-1"]).contains("charged"));
    assert_eq!(reserved.load(Ordering::SeqCst), 1, "what was done stays done");
    assert_eq!(shop.run(&["retry", "order-9"]).code, 4);
}

/// Schedule 102. RUN-40.
fn open_runs_are_listed_behind_any_number_of_ended_ones(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store.clone());
        for id in ["a", "b", "c", "d"] {
            tidelock.start("checkout", id, &json!(7)).version(1).await.unwrap();
        }
        many_gone(&*store, "~run-index/open/checkout/0").await;
    });
    assert_eq!(shop.json(&["runs", "--state", "open"]).len(), 4);
}
