//! What is done by clicking, and seen in the store.

use std::time::Duration;

use serde_json::Value;
use tidelock::prelude::*;
use tidelock::reactions::AppBuilder;
use tidelock::runs::{Outcome, Standing};
use tidelock_test_stage::{Running, brisk, until};
use tokio::sync::mpsc::UnboundedSender;

use crate::shop::Shop;
use crate::site::{OPERATOR, for_real, visit};

/// UI-5.
#[test]
fn an_operator_unblocks_by_clicking_and_the_target_goes_on() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        let item = async || {
            let blocked = ItemQuery::new(ItemFilter::default().blocked(true));
            shop.tidelock.store().items(blocked).await.unwrap().items.pop()
        };
        let fence = async || item().await.and_then(|item| item.fence);
        let before = fence().await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/reactions/mail").await;
            page.click("//tr[contains(., 'order-2')]//button[.='Unblock']").await;
            page.sees("dialog .what", "“order-2” of the reaction “mail” is tried again").await;
            assert_eq!(fence().await, before, "nothing is done before it is confirmed");
            page.click("//dialog//button[.='Unblock']").await;
            page.sees("dialog .done", "1 target changed").await;
            page.click("//dialog//button[.='Close']").await;
            until("it was tried again, and is blocked again", async || fence().await > before).await;
            page.go("#/audit").await;
            page.sees("td", "alice").await;
            page.sees("td", "/v1/reactions/unblock").await;
        })
        .await;
    });
}

/// UI-5.
#[test]
fn a_signal_is_sent_by_clicking_and_the_run_receives_it_once() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/runs/checkout-1").await;
            page.click("//button[.='Signal']").await;
            page.write("dialog textarea[name=payload]", "{not json").await;
            page.click("//dialog//button[.='Signal']").await;
            page.sees("dialog .trouble", "not JSON").await;
            page.write("dialog textarea[name=payload]", "{\"by\": \"joe\"}").await;
            page.click("//dialog//button[.='Signal']").await;
            page.sees("dialog .done", "the signal “approved” was sent").await;
            page.click("//dialog//button[.='Close']").await;
            let result = shop.tidelock.runs().run("checkout-1").result::<String>().await.unwrap();
            assert_eq!(result, "tea: {\"by\":\"joe\"}");
            page.sees(".head .badge", "completed").await;
            page.sees(".json", "joe").await;
        })
        .await;
        let ended = shop.tidelock.runs().run("checkout-1").standing().await.unwrap();
        assert!(matches!(ended, Standing::Ended(Outcome::Completed(_))), "{ended:?}");
    });
}

/// UI-5.
#[test]
fn a_step_that_nobody_knows_about_is_decided_by_clicking_and_the_run_goes_on() {
    let tidelock = for_real(Tidelock::open("memory:")).unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    // A process of its own, as far as it goes: all of it is torn down in the middle of the step.
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.spawn(paying(&tidelock, &begun).build().unwrap().run());
    for_real(async {
        tidelock.runs().start("payment", "payment-1", &Value::Null).version(1).await.unwrap();
        begins.recv().await.expect("the step begins");
    });
    dying.shutdown_background();
    for_real(async {
        let running = Running::start(paying(&tidelock, &begun));
        let run = tidelock.runs().run("payment-1");
        until("somebody is asked", async || {
            matches!(run.standing().await.unwrap(), Standing::Waiting { .. })
        })
        .await;
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/doctor").await;
            page.click("//article[contains(., 'payment-1')]//a[.='Decide']").await;
            page.sees(".standing", "Nobody knows whether the step pay was done").await;
            page.click("//main//button[.='Decide']").await;
            page.write("dialog textarea[name=result]", "\"receipt 7\"").await;
            page.click("//dialog//button[.='Decide']").await;
            page.sees("dialog .done", "“pay” counts as done").await;
            assert_eq!(run.result::<String>().await.unwrap(), "receipt 7");
        })
        .await;
        running.stop().await;
    });
}

/// A program with a step that must not be done twice, and that does not end.
fn paying(tidelock: &Tidelock, begun: &UnboundedSender<()>) -> AppBuilder {
    let begun = begun.clone();
    let workflow = Workflow::boxed("payment", move |ctx, _: Value| {
        let begun = begun.clone();
        Box::pin(async move {
            let pay = |_| {
                begun.send(()).expect("the test waits for it");
                std::future::pending::<Result<String, Failure>>()
            };
            ctx.step("pay", pay).at_most_once(Ambiguous::Ask).await
        })
    });
    tidelock.app().worker(brisk("teller")).register(workflow.leased_for(Duration::from_millis(300)))
}
