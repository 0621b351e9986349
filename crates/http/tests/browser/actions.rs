//! Actions by clicking, verified in the store.

use std::time::Duration;

use serde_json::Value;
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock::runs::OnUnknownOutcome;
use tidelock::runs::{RunOutcome, RunStatus};
use tidelock::store::{ItemFilter, ItemQuery, StoreExt, StreamName};
use tidelock_test_stage::{Running, brisk, until};
use tokio::sync::mpsc::UnboundedSender;

use crate::shop::Shop;
use crate::site::{OPERATOR, for_real, visit};

/// UI-5.
#[test]
fn an_operator_unblocks_a_target_by_clicking() {
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
            page.sees("dialog .what", "“order-2” of the reaction “mail” continues").await;
            assert_eq!(fence().await, before, "nothing happens before it is confirmed");
            page.click("//dialog//button[.='Unblock']").await;
            page.sees("dialog .done", "1 target changed").await;
            page.click("//dialog//button[.='Close']").await;
            until("it was tried again, and is blocked again", async || fence().await > before)
                .await;
            page.go("#/audit").await;
            page.sees("td", "alice").await;
            page.sees("td", "/v1/reactions/unblock").await;
        })
        .await;
    });
}

/// UI-5, REACT-28.
#[test]
fn a_target_goes_on_without_an_event_by_clicking() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/reactions/mail").await;
            page.click("//tr[contains(., 'order-2')]//button[.='Skip']").await;
            page.sees("dialog .what", "“order-2” of the reaction “mail” goes on without").await;
            page.click("//dialog//button[.='Skip']").await;
            assert!(shop.tidelock.reactions().skipped(None).all().await.unwrap().is_empty());
            page.write("dialog input[name=reason]", "a test order").await;
            page.click("//dialog//button[.='Skip']").await;
            page.sees("dialog .done", "the next worker skips the event").await;
            page.click("//dialog//button[.='Close']").await;
            until("it was skipped", async || {
                !shop.tidelock.reactions().skipped(Some("mail")).all().await.unwrap().is_empty()
            })
            .await;
            page.click("//a[.='Skipped events']").await;
            page.sees("td", "a test order").await;
        })
        .await;
    });
}

/// UI-5: an item of a queue, and a target of a reaction, from the screens that show them.
#[test]
fn items_and_targets_are_deferred_and_prioritized_by_clicking() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        let item = async |queue: &str, key: &str| {
            let one = ItemFilter::queue(queue).key(tidelock::store::NamePattern::is(key));
            shop.tidelock.store().items(ItemQuery::new(one)).await.unwrap().items.pop().unwrap()
        };
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            for (screen, row, queue, key) in [
                ("#/leases?queue=post", "parcel-1", "post", "parcel-1"),
                ("#/reactions/mail", "order-1", "~reaction/mail", "order-1"),
            ] {
                page.go(screen).await;
                let press = |what: &str| format!("//tr[contains(., '{row}')]//{what}");
                page.click(&press("summary[.='More']")).await;
                page.click(&press("button[.='Prioritize']")).await;
                page.write("dialog input[name=priority]", "9").await;
                assert_eq!(
                    item(queue, key).await.priority.get(),
                    0,
                    "nothing is done before it is confirmed"
                );
                page.click("//dialog//button[.='Prioritize']").await;
                page.sees("dialog .done", "changed (prioritize)").await;
                page.click("//dialog//button[.='Close']").await;
                page.sees("td", "priority 9").await;
                assert_eq!(item(queue, key).await.priority.get(), 9);
                // The menu is still open.
                page.click(&press("button[.='Defer']")).await;
                page.write("dialog input[name=minutes]", "1.5").await;
                page.click("//dialog//button[.='Defer']").await;
                assert_eq!(item(queue, key).await.hold, None, "invalid input is not sent");
                page.write("dialog input[name=minutes]", "90").await;
                page.click("//dialog//button[.='Defer']").await;
                page.sees("dialog .done", "changed (defer)").await;
                page.click("//dialog//button[.='Close']").await;
                assert!(item(queue, key).await.hold.is_some());
            }
        })
        .await;
    });
}

/// UI-5: the item's holder loses its lease; and a reaction's events are routed from the next one
/// on.
#[test]
fn an_item_is_reset_and_a_reaction_rerouted_by_clicking() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        let held = async || {
            let post = ItemQuery::new(ItemFilter::queue("post").held(true));
            shop.tidelock.store().items(post).await.unwrap().items.len()
        };
        // The position of "now" is found by an event there.
        let marks = StreamName::new("~registrations/mail").unwrap();
        let marked = async || shop.tidelock.store().read_whole_stream(&marks).await.unwrap().len();
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/leases?queue=post").await;
            page.click("//tr[contains(., 'parcel-1')]//summary[.='More']").await;
            page.click("//tr[contains(., 'parcel-1')]//button[.='Reset']").await;
            page.sees("dialog .what", "Its holder loses the lease").await;
            assert_eq!(held().await, 1, "nothing is done before it is confirmed");
            page.click("//dialog//button[.='Reset']").await;
            page.sees("dialog .done", "1 item changed (reset)").await;
            page.click("//dialog//button[.='Close']").await;
            assert_eq!(held().await, 0);
            page.go("#/reactions/mail").await;
            assert_eq!(marked().await, 0);
            page.click("//div[@class='actions']//button[.='Reroute']").await;
            page.sees("dialog .what", "The events of the reaction “mail” are routed again").await;
            page.click("//dialog//button[.='Reroute']").await;
            page.sees("dialog .done", "from the next event").await;
            assert_eq!(marked().await, 1);
        })
        .await;
    });
}

/// UI-5: the doctor's remedy for an abandoned claim.
#[test]
fn an_abandoned_claim_is_released_by_clicking() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        let claims = tidelock.claims().by("till-1");
        let claim = claims
            .idempotency("pay:42")
            .lease(Duration::from_millis(1))
            .claim::<Value>()
            .await
            .unwrap();
        let IdempotencyClaim::Won(won) = claim else { panic!("it is free") };
        // The holder dies without releasing the claim.
        let _held = won.detach();
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/claims?state=stale").await;
            page.click("//tr[contains(., 'idempotency/pay:42')]//button[.='Release']").await;
            page.sees("dialog .what", "The claim “idempotency/pay:42” is released").await;
            page.click("//dialog//button[.='Release']").await;
            page.sees("dialog .done", "the claim “idempotency/pay:42” is free").await;
        })
        .await;
        let left = tidelock.claims().list("idempotency/pay").all().await.unwrap();
        assert!(left.is_empty(), "{left:?}");
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
            let result =
                shop.tidelock.runs().run("checkout-1").typed::<String>().result().await.unwrap();
            assert_eq!(result, "tea: {\"by\":\"joe\"}");
            page.sees(".head .badge", "completed").await;
            page.sees(".json", "joe").await;
        })
        .await;
        let ended = shop.tidelock.runs().run("checkout-1").status().await.unwrap();
        assert!(matches!(ended, RunStatus::Ended(RunOutcome::Completed(_))), "{ended:?}");
    });
}

/// UI-5.
#[test]
fn a_step_with_an_unknown_outcome_is_resolved_by_clicking() {
    let tidelock = for_real(Tidelock::open("memory:")).unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    // A separate runtime stands in for a process: it is torn down in the middle of the step.
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.spawn(paying(&tidelock, &begun).build().unwrap().run());
    for_real(async {
        tidelock.start("payment", "payment-1", &Value::Null).version(1).await.unwrap();
        begins.recv().await.expect("the step begins");
    });
    dying.shutdown_background();
    for_real(async {
        let running = Running::start(paying(&tidelock, &begun));
        let run = tidelock.runs().run("payment-1");
        until("a verdict is needed", async || {
            matches!(run.status().await.unwrap(), RunStatus::Waiting { .. })
        })
        .await;
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/doctor").await;
            page.sees(".finding", "the outcome of the step is unknown").await;
            page.click("//article[contains(., 'payment-1')]//button[.='Decide']").await;
            page.write("dialog textarea[name=result]", "\"receipt 7\"").await;
            page.click("//dialog//button[.='Decide']").await;
            page.sees("dialog .done", "“pay” counts as done").await;
            assert_eq!(run.typed::<String>().result().await.unwrap(), "receipt 7");
        })
        .await;
        running.stop().await;
    });
}

/// A program with a step that must not be carried out twice, and that never ends.
fn paying(tidelock: &Tidelock, begun: &UnboundedSender<()>) -> AppBuilder {
    let begun = begun.clone();
    let payment = move |ctx: RunCtx, _: Value| {
        let begun = begun.clone();
        async move {
            let pay = |_| {
                begun.send(()).expect("the test waits for it");
                std::future::pending::<Result<String, HandlerError>>()
            };
            ctx.step("pay", pay).at_most_once(OnUnknownOutcome::Ask).await
        }
    };
    let options = Workflow::new("payment").options().lease(Duration::from_millis(300));
    tidelock.app().worker(brisk("teller")).workflow(options, payment)
}
