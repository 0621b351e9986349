//! `tidelock::testing::TestApp`, tried as its users use it: simulated time, assertions, failures.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tidelock::prelude::*;
use tidelock::queues::ItemState;
use tidelock::store::StoreOperation;
use tidelock::testing::{Fault, TestApp};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default, Clone)]
struct Order {
    paid: bool,
}

#[derive(Debug, PartialEq, Clone, Event)]
enum OrderEvent {
    Placed { cents: i64 },
    Paid,
}

use OrderEvent::{Paid, Placed};

impl Aggregate for Order {
    const KIND: &'static str = "order";
    type Event = OrderEvent;

    fn apply(&mut self, event: &OrderEvent) {
        self.paid |= *event == Paid;
    }
}

const DUNNING: Workflow<String, String> = Workflow::new("dunning");

/// Reminds twice, two days apart, unless it is paid.
async fn dun(ctx: RunCtx, order: String) -> Result<String, StepError> {
    for reminder in 1..=2 {
        let paid: Option<bool> =
            ctx.wait_for_signal(format!("paid-{reminder}")).within(2 * DAY).await?;
        if paid.is_some() {
            return Ok(format!("{order} was paid"));
        }
        let note = |_key| async { Ok::<_, HandlerError>(reminder) };
        ctx.step(format!("remind {reminder}"), note).await?;
    }
    ctx.transact("hand over", async |tx: Tx| -> tidelock::Result<()> {
        tx.enqueue_item(tx.tidelock().queue("collectors").enqueue(&order).data(&order))
    })
    .await?;
    Ok(format!("{order} was handed over"))
}

/// A shop: each order that is placed gets a reminder run, and a line in the books.
fn shop(tidelock: &Tidelock) -> tidelock::AppBuilder {
    tidelock
        .app()
        .workflow(DUNNING, dun)
        .reaction("dun", on::<OrderEvent>(), |order: Recorded<OrderEvent>, ctx| async move {
            if let Placed { .. } = order.event {
                ctx.start(DUNNING, order.stream.as_str(), order.stream.as_str()).await?;
            }
            Ok(())
        })
        .reaction("books", on::<OrderEvent>(), |order: Recorded<OrderEvent>, ctx| async move {
            let line = tidelock::store::NewEvent::of("booked", &order.stream.as_str())?;
            Ok(ctx.append_to("books", ExpectedVersion::Any, [line])?)
        })
}

async fn placed(test: &TestApp, id: &str) {
    let order = test.tidelock().aggregate::<Order>(id);
    order.append(Placed { cents: 700 }).await.unwrap();
}

/// What an assertion says when it fails.
async fn said(of: impl Future<Output = ()>) -> String {
    let panic = AssertUnwindSafe(of).catch_unwind().await.unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| {
        panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_default()
    })
}

/// TEST-1, TEST-2.
#[tokio::test(start_paused = true)]
async fn days_pass_when_they_are_told_to_and_never_before() {
    let test = TestApp::start(shop).await;
    let began = test.now();
    placed(&test, "7").await;
    test.run_until_idle().await;
    assert!(test.now().since(began) < Duration::from_secs(1), "nothing took time");
    test.events("order-7").assert_types(["placed"]).assert_eq([Placed { cents: 700 }]);
    test.all_events().assert_types(["placed", "booked"]);
    test.run("order-7").assert_steps([]).assert_waits_for("paid-1");
    test.queue("collectors").assert_empty();

    test.advance(2 * DAY).await;
    test.run("order-7").assert_steps(["remind 1"]).assert_waits_for("paid-2");
    test.advance(2 * DAY).await;
    test.run("order-7")
        .assert_steps(["remind 1", "remind 2", "hand over"])
        .assert_completed("order-7 was handed over");
    let collectors = test.queue("collectors");
    collectors.assert_keys(["order-7"]);
    assert_eq!(collectors.state("order-7"), Some(ItemState::Due));
    assert_eq!(collectors.data::<String>("order-7").as_deref(), Some("order-7"));
    let took = test.now().since(began);
    assert!(took >= 4 * DAY && took < 4 * DAY + Duration::from_secs(5), "{took:?}");
}

/// TEST-2.
#[tokio::test(start_paused = true)]
async fn work_in_progress_takes_the_time_that_it_needs() {
    const NAP: Duration = Duration::from_secs(90);
    let slow = |_: Recorded<OrderEvent>, ctx: ReactionCtx| async move {
        tokio::time::sleep(NAP).await;
        Ok(ctx.put("done", &true)?)
    };
    let test =
        TestApp::start(move |tidelock| tidelock.app().reaction("slow", on::<OrderEvent>(), slow))
            .await;
    let began = test.now();
    placed(&test, "7").await;
    test.run_until_idle().await;
    let took = test.now().since(began);
    assert!(took >= NAP && took < NAP + Duration::from_secs(2), "{took:?}");
    assert!(
        test.tidelock()
            .reactions()
            .list(&tidelock::reactions::ReactionFilter::all())
            .await
            .unwrap()
            .items[0]
            .lag()
            == 0
    );
}

/// TEST-2.
#[tokio::test(start_paused = true)]
async fn a_failed_handler_is_idle_until_its_retry_is_due() {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let test = TestApp::start(move |tidelock| {
        let attempts = counted.clone();
        let fails = move |_: Recorded<OrderEvent>, _: ReactionCtx| {
            let nth = attempts.fetch_add(1, Ordering::SeqCst);
            async move {
                match nth {
                    0 => Err(HandlerError::again("not yet")),
                    _ => Ok(()),
                }
            }
        };
        let source = on::<OrderEvent>().retry(
            Retry::attempts(u32::MAX).backoff(Backoff::exponential(DAY, DAY).with_jitter(0.0)),
        );
        tidelock.app().reaction("fails", source, fails)
    })
    .await;
    placed(&test, "7").await;
    test.run_until_idle().await;
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    test.advance(DAY).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

/// TEST-3. Wherever the process dies, each order has one reminder run and one line.
#[tokio::test(start_paused = true)]
async fn a_crash_at_each_commit_in_turn_loses_and_repeats_nothing() {
    for fault in [Fault::Crash, Fault::CrashAfter, Fault::Unavailable, Fault::UnknownOutcome] {
        for nth in 1.. {
            let test = TestApp::start(shop).await;
            test.faults().fail_nth(StoreOperation::Commit, nth, fault);
            placed(&test, "7").await;
            test.run_until_idle().await;
            test.advance(4 * DAY).await;
            if test.faults().pending() > 0 {
                assert!(nth > 5, "{fault:?}: only {nth} commits were tried");
                break;
            }
            let crashes = matches!(fault, Fault::Crash | Fault::CrashAfter);
            assert_eq!(test.lives(), if crashes { 2 } else { 1 }, "{fault:?} at {nth}");
            // A lease of the first life can have delayed a reminder.
            test.advance(Duration::from_secs(60)).await;
            test.run("order-7").assert_steps(["remind 1", "remind 2", "hand over"]);
            test.events("books").assert_types(["booked"]);
            test.queue("collectors").assert_keys(["order-7"]);
        }
    }
}

/// TEST-3.
#[tokio::test(start_paused = true)]
async fn what_an_application_was_at_ends_with_it() {
    let (begun, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (begun.clone(), ended.clone());
    let test = TestApp::start(move |tidelock| {
        let (begun, ended) = counts.clone();
        let handler = move |_: Recorded<OrderEvent>, _: ReactionCtx| {
            let (begun, ended) = (begun.clone(), ended.clone());
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(5)).await;
                ended.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        };
        tidelock.app().reaction("slow", on::<OrderEvent>(), handler)
    })
    .await;
    placed(&test, "7").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    test.crash();
    test.run_until_idle().await;
    assert_eq!((begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (2, 1));
    assert_eq!(test.lives(), 2);
}

/// TEST-3.
#[tokio::test(start_paused = true)]
async fn the_calls_of_a_faulty_handle_fail_like_the_applications() {
    let test = TestApp::start(Tidelock::app).await;
    let tidelock = test.faults().tidelock();
    let order = tidelock.aggregate::<Order>("7");
    // A decision is sent again under its id, so neither is noticed.
    for (nth, fault) in [(1, Fault::Unavailable), (1, Fault::UnknownOutcome)] {
        let before = test.faults().calls(StoreOperation::Commit);
        test.faults().fail_nth(StoreOperation::Commit, nth, fault);
        order.append(Placed { cents: 1 }).await.unwrap();
        assert_eq!(test.faults().calls(StoreOperation::Commit) - before, 2, "{fault:?}");
    }
    test.faults().fail_nth(StoreOperation::Commit, 1, Fault::CrashAfter);
    order.append(Paid).await.unwrap_err();
    test.events("order-7").assert_types(["placed", "placed", "paid"]);
    order.load().await.unwrap_err();
    test.tidelock().aggregate::<Order>("7").load().await.unwrap();
    test.faults().fail_nth(StoreOperation::Commit, 3, Fault::Unavailable);
    test.faults().clear();
    assert_eq!(test.faults().pending(), 0);
}

/// TEST-5.
#[tokio::test(start_paused = true)]
async fn an_assertion_that_does_not_hold_says_what_is_there_instead() {
    let test = TestApp::start(shop).await;
    placed(&test, "7").await;
    test.run_until_idle().await;
    let wrong = said(async { _ = test.events("order-7").assert_types(["placed", "paid"]) }).await;
    assert_eq!(
        wrong,
        "events of stream \"order-7\": number 2 differs\n       expected  found\n    1  placed    placed\n>   2  paid      (none)"
    );
    let wrong = said(async { _ = test.run("order-7").assert_completed("x") }).await;
    assert_eq!(wrong, "run \"order-7\" has not completed: it waits for signal \"paid-1\"",);
    let wrong = said(async { _ = test.run("order-8").assert_steps([]) }).await;
    assert!(wrong.contains("\"order-8\""), "{wrong}");
    let wrong = said(async { _ = test.queue("collectors").assert_keys(["order-7"]) }).await;
    assert!(wrong.starts_with("items of queue \"collectors\": number 1 differs"), "{wrong}");
    let wrong = said(async { _ = test.run("order-7").assert_failed("x") }).await;
    assert!(wrong.starts_with("run \"order-7\" has not failed: it waits"), "{wrong}");
    let wrong = said(async { _ = test.run("order-7").assert_waits_for("x") }).await;
    assert!(wrong.starts_with("run \"order-7\" does not wait for signal \"x\""), "{wrong}");
}

/// TEST-2, TEST-5.
#[tokio::test(start_paused = true)]
async fn an_application_that_never_becomes_idle_fails_the_test_with_what_keeps_it() {
    // The lane is served by no worker of this application, so the item stays due.
    let test = TestApp::start(|tidelock| shop(tidelock).lanes(["default"])).await;
    placed(&test, "7").await;
    test.run_until_idle().await;
    let far = tidelock::store::LaneName::new("far").unwrap();
    let item = tidelock::store::ItemRef::parse("~runs/dunning@1", "elsewhere").unwrap();
    let wake = tidelock::store::Wake::at(item, tidelock::When::NOW).in_lane(far);
    let commit = tidelock::store::Commit::new().wake(wake);
    test.tidelock().store().commit(commit).await.unwrap().committed().unwrap();
    let wrong = said(test.run_until_idle()).await;
    assert!(wrong.contains("test_app.rs:"), "{wrong}");
    assert!(wrong.contains("item \"elsewhere\" of queue \"~runs/dunning@1\" is due"), "{wrong}");
}

/// TEST-1, TEST-5.
#[tokio::test]
async fn time_that_runs_is_refused() {
    let wrong = said(async { _ = TestApp::start(shop).await }).await;
    assert!(wrong.contains("#[tokio::test(start_paused = true)]"), "{wrong}");
}
