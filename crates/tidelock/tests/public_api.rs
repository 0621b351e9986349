//! The public API, call by call, as a program uses it: every pattern by itself, and all of them in
//! one unit of work. What this file needs to write it down is all that a user needs.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::claims::{LockBusy, LockGuard, QuotaExceeded, SingletonTaken};
use tidelock::closing::discard;
use tidelock::jobs::{JobFilter, JobOptions, JobState};
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::runs::{CatchUp, Overlap, RunFilter, RunStatus};
use tidelock::scopes::ScopeFilter;
use tidelock::store::{Commit, CommitOutcome, ExpectedRevision, StoreOperation};
use tidelock::testing::{Fault, TestApp, given, replay};
use tidelock::{ErrorKind, When};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default, Clone)]
struct Stock {
    left: i64,
}

#[derive(Debug, PartialEq, Clone, Event)]
enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64 },
}

use StockEvent::{Received, Reserved};

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            Received { units } => self.left += units,
            Reserved { units } => self.left -= units,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Clone, thiserror::Error)]
#[error("only {0} left")]
struct OutOfStock(i64);

impl Stock {
    fn reserve(&self, units: i64) -> Result<StockEvent, OutOfStock> {
        if units > self.left { Err(OutOfStock(self.left)) } else { Ok(Reserved { units }) }
    }
}

/// An application's own error, into which both kinds of errors convert.
#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error(transparent)]
    OutOfStock(#[from] ExecuteError<OutOfStock>),
    #[error(transparent)]
    Tidelock(#[from] tidelock::Error),
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: String,
    tea: String,
    units: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SendMail {
    order: String,
}

impl Job for SendMail {
    const QUEUE: &'static str = "mail";

    fn options() -> JobOptions {
        JobOptions::new().retry(Retry::attempts(5)).keep_results(DAY)
    }
}

const DELIVERY: Workflow<Order, String> = Workflow::new("delivery");

async fn deliver(ctx: RunCtx, order: Order) -> Result<String, StepError> {
    let packer: String = ctx.wait_for_signal("packed").await?;
    let label = ctx.step("label", async |_key| Ok::<_, HandlerError>(order.id.clone())).await?;
    Ok(format!("{label}, packed by {packer}"))
}

fn order() -> Order {
    Order { id: "7".into(), tea: "assam".into(), units: 2 }
}

async fn memory() -> Tidelock {
    Tidelock::open("memory:").await.unwrap()
}

#[tokio::test]
async fn a_commit_to_the_store_takes_names_as_strings_and_bounds_as_ranges() -> tidelock::Result<()>
{
    let tidelock = memory().await;
    let sell = || {
        tidelock
            .commit()
            .append("order-7", ExpectedVersion::NoStream, event("placed", json!({ "units": 2 })))
            .put("orders/last", "7")
            .put_if("orders/first", ExpectedRevision::Absent, "7")
            .add("sold/tea", 2, ..=18)
            .delete("orders/none")
            .enqueue("mail", "order-7")
            .parts(Commit::new())
    };
    assert_eq!(sell().await?.appends.len(), 1);
    assert_eq!(sell().await.unwrap_err().kind(), ErrorKind::Conflict);
    let CommitOutcome::Conflict(conflict) = sell().outcome().await? else { panic!("it landed") };
    assert_eq!(conflict.violations.len(), 2, "the stream and the first order");
    Ok(())
}

#[tokio::test]
async fn events_are_appended_decided_and_read() -> Result<(), ShopError> {
    let tidelock = memory().await;
    let (stock, other) =
        (tidelock.aggregate::<Stock>("assam"), tidelock.aggregate::<Stock>("oolong"));
    stock.append(Received { units: 5 }).await.unwrap();
    stock.execute(|stock| stock.reserve(2)).await?;
    stock.decision().operation_id("payment-42").by("ada").execute(|s| s.reserve(2)).await?;
    let both = |(stock, _): (&Stock, &Stock)| {
        Ok::<_, OutOfStock>((stock.reserve(1)?, Received { units: 1 }))
    };
    tidelock.decide((&stock, &other)).execute(both).await?;
    assert_eq!(stock.load().await.unwrap().left, 0);
    assert_eq!(stock.history().await.unwrap().len(), 4);

    let refused = stock.execute(|stock| stock.reserve(2)).await.refusal()?;
    assert_eq!(refused.unwrap_err(), OutOfStock(0));
    let refused: ShopError = stock.execute(|stock| stock.reserve(2)).await.unwrap_err().into();
    assert!(matches!(refused, ShopError::OutOfStock(ExecuteError::Refused(OutOfStock(0)))));
    let error: tidelock::Error = stock.execute(|stock| stock.reserve(2)).await.unwrap_err().into();
    assert_eq!(error.refusal::<OutOfStock>(), Some(&OutOfStock(0)));

    given::<Stock>([Received { units: 3 }]).when(|s| s.reserve(2)).then(Reserved { units: 2 });
    Ok(())
}

/// A helper over `&Tx`: the same outside, in a handler and in a step.
async fn reserve(tx: &Tx, tea: &str, units: i64) -> Result<(), ExecuteError<OutOfStock>> {
    let stock = tx.tidelock().aggregate::<Stock>(tea);
    tx.execute(&stock, move |stock: &Stock| stock.reserve(units)).await
}

#[tokio::test]
async fn a_unit_of_work_has_every_pattern_and_the_closures_own_error() -> Result<(), ShopError> {
    let tidelock = memory().await;
    let stock = tidelock.aggregate::<Stock>("assam");
    stock.append(Received { units: 5 }).await.unwrap();
    let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    let daily = tidelock.quota("orders", 20).of("alice").per(Period::Day);
    let welcome = tidelock.singleton("welcome").of("alice");
    let payment = tidelock.idempotency("pay:43");
    let IdempotencyClaim::Won(claim) = payment.claim::<String>().await.unwrap() else { panic!() };
    let lock = tidelock.lock("till").acquire().await.unwrap().granted().unwrap();
    let order = order();

    let place = async |tx: Tx| -> Result<i64, ShopError> {
        let left = tx.load(&stock).await?.left;
        let last: Option<i64> = tx.get("orders/last").await?;
        tx.put("orders/last", &(last.unwrap_or_default() + 1))?;
        tx.put_if("orders/7", ExpectedRevision::Absent, &order)?;
        tx.delete("orders/6")?;
        tx.add("revenue", 700, ..)?;
        tx.mutate(&basket, |basket| basket.push(order.tea.clone())).await?;
        tx.take(&daily, 1).await?.granted().map_err(tidelock::Error::from)?;
        if tx.claim(&welcome, &order.id).await?.is_granted() {
            tx.enqueue(&SendMail { order: order.id.clone() }).key("welcome/alice").await?;
        }
        reserve(&tx, &order.tea, order.units).await?;
        tx.append_to("audit", ExpectedVersion::Any, event("placed", &order))?;
        tx.start(DELIVERY, &order.id, &order).version(1).await.map_err(tidelock::Error::from)?;
        tx.signal(&order.id, "packed", "Ada").await.map_err(tidelock::Error::from)?;
        tx.fence(&lock)?;
        tx.complete(&claim, &"receipt".to_owned())?;
        tx.parts(Commit::new())?;
        Ok(left)
    };
    assert_eq!(tidelock.transact(place).by("ada").retry(Retry::attempts(5)).await?, 5);
    assert_eq!(stock.load().await.unwrap().left, 3);

    let too_many = async |tx: Tx| Ok::<_, ShopError>(reserve(&tx, "assam", 9).await?);
    let refused = tidelock.transact(too_many).await.unwrap_err();
    assert!(matches!(refused, ShopError::OutOfStock(ExecuteError::Refused(OutOfStock(3)))));
    let count = async |tx: Tx| tx.add("count", 1, ..);
    tidelock.transact(count).operation_id("request-17").await?;
    tidelock.transact(count).outcome().await?.granted().map_err(tidelock::Error::from)?;
    Ok(())
}

/// Everything that an application registers, with closures that capture.
fn shop(tidelock: &Tidelock) -> tidelock::AppBuilder {
    let (mails, charged) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    tidelock
        .app()
        .reaction(
            "restock",
            on::<StockEvent>().in_streams("stock-").retry(Retry::attempts(10)),
            |event: Recorded<StockEvent>, ctx: ReactionCtx| async move {
                ctx.add(format!("seen/{}", event.stream), 1, ..)?;
                ctx.enqueue(&SendMail { order: event.stream.to_string() }).await?;
                Ok(())
            },
        )
        .batch_reaction("audit", on_any(), 100, async |events: Vec<_>, ctx: ReactionCtx| {
            Ok(ctx.add("audit/events", events.len() as i64, ..)?)
        })
        .projection("left", on::<StockEvent>(), |left: &mut i64, event: Recorded<StockEvent>| {
            match event.event {
                Received { units } => *left += units,
                Reserved { units } => *left -= units,
            }
        })
        .job(move |mail: SendMail, ctx: JobCtx| {
            let mails = mails.clone();
            async move {
                ctx.progress(&"sending").await?;
                ctx.put(format!("mailed/{}", mail.order), ctx.effect_key())?;
                Ok(mails.fetch_add(1, Ordering::SeqCst))
            }
        })
        .workflow(DELIVERY.options().version(2).max_crashes(3), move |ctx: RunCtx, order: Order| {
            let charged = charged.clone();
            async move {
                let charge = async |_key: StepKey| {
                    Ok::<_, HandlerError>(charged.fetch_add(order.units, Ordering::SeqCst))
                };
                ctx.step("charge", charge).retry(Retry::attempts(5)).await?;
                ctx.transact("book", async |tx: Tx| tx.add("revenue", order.units, ..)).await?;
                let packed = ctx.wait_for_signal::<String>("packed").within(DAY).await?;
                Ok::<_, StepError>(packed.unwrap_or_else(|| "not packed".into()))
            }
        })
}

#[tokio::test(start_paused = true)]
async fn an_application_reacts_works_and_runs() -> Result<(), Box<dyn std::error::Error>> {
    let test = TestApp::start(shop).await;
    let tidelock = test.tidelock();
    tidelock.aggregate::<Stock>("assam").append(Received { units: 3 }).await?;
    let run = tidelock.start(DELIVERY, "order-7", &order()).await?;
    tidelock.enqueue(&SendMail { order: "7".into() }).key("order-7").at(60 * SECOND).await?;
    tidelock.enqueue_all([SendMail { order: "8".into() }]).await?;
    test.run_until_idle().await;

    test.events("stock-assam").assert_types(["received"]);
    test.jobs::<SendMail>().assert_enqueued(|mail| mail.order == "7");
    let left: Option<i64> = tidelock.reactions().row("left", "stock-assam").await?;
    assert_eq!(left, Some(3));
    assert_eq!(tidelock.reactions().list(&ReactionFilter::named("left")).all().await?.len(), 1);
    assert!(matches!(run.status().await?, RunStatus::Waiting { .. }), "{:?}", run.status().await?);

    run.signal("packed", "Ada").await?;
    test.advance(60 * SECOND).await;
    let result: String = tidelock.run(DELIVERY, "order-7").result().await?;
    assert_eq!(result, "Ada");
    test.run("order-7").assert_steps(["charge", "book"]).assert_completed("Ada");
    let job = tidelock.jobs().get("mail", "order-7").await?.ok_or("no job")?;
    assert_eq!(job.state, JobState::Done);
    tidelock.jobs().result::<i64>("mail", "order-7").await?.ok_or("no result")?;
    test.jobs::<SendMail>().assert_none();

    let history = serde_json::to_string(&run.export().await?)?;
    let wrong = async |ctx: RunCtx, _: Order| ctx.value("other", || "x".to_owned()).await;
    replay(DELIVERY, wrong, &history).await.unwrap_err();

    test.faults().fail_nth(StoreOperation::Commit, 1, Fault::Unavailable);
    tidelock.reactions().pause("left", "out of order").await?;
    tidelock.reactions().resume("left").await?;
    Ok(())
}

#[tokio::test]
async fn runs_and_schedules_have_their_verbs() -> Result<(), Box<dyn std::error::Error>> {
    let tidelock = memory().await;
    let run = tidelock.start("delivery", "order-7", &order()).version(1).await?;
    run.cancel("out of tea").await?;
    run.terminate("out of patience").await?;
    assert_eq!(tidelock.runs().list(&RunFilter::all().workflow("delivery")).all().await?.len(), 1);
    tidelock.runs().bulk(&RunFilter::all()).cancel("closing").await?;
    tidelock.runs().pause("delivery", "closing").await?;
    tidelock.runs().resume("delivery").await?;
    let error = tidelock::Error::from(tidelock.runs().run("none").get().await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let nightly = Schedule::cron("0 3 * * *")
        .zone("Europe/Berlin")
        .starts(DELIVERY, &order())
        .catch_up(CatchUp::default())
        .overlap(Overlap::Skip);
    tidelock.schedules().put("nightly", nightly).await?;
    let mails = Schedule::cron("0 4 * * *").enqueues(&SendMail { order: "all".into() });
    tidelock.schedules().put("mails", mails).await?;
    tidelock.schedules().pause("nightly").await?;
    tidelock.schedules().resume("nightly").await?;
    tidelock.schedules().trigger("mails").await?;
    assert_eq!(tidelock.schedules().list().await?.len(), 2);
    assert!(tidelock.schedules().get("nightly").await?.is_some());
    assert!(tidelock.schedules().delete("nightly").await?);
    tidelock.jobs().pause("mail", "the server is down").await?;
    assert_eq!(tidelock.pauses().await?.len(), 1);
    let mails = JobFilter::queue("mail");
    assert_eq!(tidelock.jobs().list(&mails).all().await?.len(), 1);
    assert_eq!(tidelock.jobs().cancel(&mails, "not needed").await?, 1);
    Ok(())
}

#[tokio::test]
async fn scopes_are_read_changed_and_watched() -> Result<(), Box<dyn std::error::Error>> {
    let tidelock = memory().await;
    let basket = tidelock.scope::<Vec<String>>(ScopeKind::custom("basket").ttl(DAY), "alice");
    let count = basket.mutate(|basket| {
        basket.push("jam".into());
        basket.len()
    });
    assert_eq!(count.await?.value, 1);
    basket.push("", "tea").await?;
    let full = basket.try_mutate(|_| Err::<(), _>(OutOfStock(0))).await.refusal()?;
    assert_eq!(full.unwrap_err(), OutOfStock(0));
    basket.mutation().operation_id("empty-1").set(&Vec::new()).await?;
    let now = basket.load().await?;
    assert_eq!((basket.get().await?, now.state_or_default().len()), (Vec::new(), 0));
    assert!(basket.watch()?.next().await?.revision.is_some());
    assert_eq!(tidelock.scopes().list(&ScopeFilter::kind("basket")).all().await?.len(), 1);

    let visits = tidelock.scope::<serde_json::Value>(ScopeKind::USER, "alice");
    assert_eq!(visits.increment("/visits", 2).await?.value, 2);
    visits.set_entry("/names", "ada", &1).await?;
    visits.remove_entry("/names", "ada").await?;
    visits.patch(json!({ "visits": null })).await?;
    visits.touch().await?;
    visits.delete().await?;
    Ok(())
}

#[tokio::test]
async fn claims_are_granted_or_refused() -> Result<(), Box<dyn std::error::Error>> {
    let tidelock = memory().await;
    let lock = tidelock.lock("report").of(2026);
    let guard: LockGuard = lock.acquire().await?.granted()?;
    let busy: Outcome<LockGuard, LockBusy> = lock.clone().within(Duration::ZERO).acquire().await?;
    let busy: tidelock::Error = busy.granted().unwrap_err().into();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    guard.release().await?;

    let points = tidelock.quota("points", 10).of("child-7").per(Period::Day);
    points.take(4).await?.granted()?;
    let reserved = points.reserve(5, SECOND).await?.granted()?;
    let exceeded: Result<_, QuotaExceeded> = points.take(4).await?.granted();
    exceeded.unwrap_err();
    reserved.confirm().await?;
    tidelock.rate("api", 10, 60 * SECOND).burst(5).take(1).await?.granted()?;

    let sample = tidelock.singleton("sample").of("ada");
    sample.take("assam").await?.granted()?;
    let taken: Result<_, SingletonTaken> = sample.take("oolong").await?.granted();
    assert_eq!(taken.unwrap_err().details::<String>()?.as_deref(), Some("assam"));

    let (key, till) = (tidelock.idempotency("pay:44"), tidelock.lock("till"));
    let all = tidelock.claim_all().idempotency(&key).lock(&till).quota(&points, 1);
    all.claim().await?.granted()?.release().await?;
    tidelock.register("avatar").put(&"a.png").await?;

    let pay = async || Ok::<_, OutOfStock>(700);
    let payment = tidelock.idempotency("pay:43").fingerprint(&order()).ttl(DAY);
    assert_eq!(payment.once(SECOND, pay).await.refusal()?, Ok(700));
    assert!(matches!(payment.claim::<i32>().await?, IdempotencyClaim::Done(700)));
    Ok(())
}

#[tokio::test]
async fn the_feed_is_paged_streamed_and_followed_and_books_are_closed()
-> Result<(), Box<dyn std::error::Error>> {
    let tidelock = memory().await;
    let stock = tidelock.aggregate::<Stock>("assam");
    let first = stock.append([Received { units: 1 }, Received { units: 2 }]).await?;
    let page = tidelock.feed().of::<StockEvent>().limit(1).await?;
    assert_eq!((page.items.len(), &page.items[0].event), (1, &Received { units: 1 }));
    let all: Vec<_> = tidelock.feed().streams("stock-").stream().try_collect().await?;
    assert_eq!(all.len(), 2);
    let begin = first.position.ok_or("nothing was appended")?;
    let mut events = tidelock.feed().types(["received"]).after(begin).follow();
    stock.append(Received { units: 3 }).await?;
    while let Some(event) = events.next().await.transpose()? {
        if read_units(&event.payload.to()?).is_break() {
            break;
        }
    }
    stock.archive_to(discard).within(SECOND).ignore_reaction("old").close().await?;
    let closed = stock.append(Received { units: 1 }).await.unwrap_err();
    assert_eq!(tidelock::Error::from(closed).kind(), ErrorKind::Closed);
    Ok(())
}

fn read_units(payload: &serde_json::Value) -> ControlFlow<()> {
    if payload["units"] == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// "When" is a length or a moment, and moments convert from and to those of the standard library.
#[tokio::test]
async fn times_convert() -> Result<(), Box<dyn std::error::Error>> {
    let now = Timestamp::try_from(std::time::SystemTime::now())?;
    let (_at, _later): (When, When) = (now.into(), SECOND.into());
    let _back: std::time::SystemTime = now.into();
    Ok(())
}

/// Handles, contexts and errors move between tasks, and an error is one pointer.
#[test]
fn handles_contexts_and_errors_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<Tidelock>();
    is_send_and_sync::<Tx>();
    is_send_and_sync::<ReactionCtx>();
    is_send_and_sync::<JobCtx>();
    is_send_and_sync::<RunCtx>();
    is_send_and_sync::<tidelock::Error>();
    is_send_and_sync::<ExecuteError<OutOfStock>>();
    assert_eq!(size_of::<tidelock::Error>(), size_of::<usize>());
}

/// A plain function is a workflow, and so is one without types.
#[tokio::test]
async fn a_workflow_is_a_constant_or_a_name() -> Result<(), Box<dyn std::error::Error>> {
    let tidelock = memory().await;
    let untyped = async |_: RunCtx, input: String| Ok::<_, StepError>(input);
    tidelock.app().workflow(DELIVERY, deliver).workflow("echo", untyped).build()?;
    Ok(())
}
