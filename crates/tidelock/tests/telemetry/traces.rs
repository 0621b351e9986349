//! Traces: what is done about something is part of the trace in which it was done, whatever happens
//! in between; and the spans of it.

use tidelock::prelude::*;
use tidelock::runs::RunExport;
use tidelock::store::{StoreExt, StoredEvent, StreamName};
use tidelock::telemetry::{ENQUEUED, LEASED, RUN_SECONDS, RUNS_ENDED, SETTLED, STEPS};
use tidelock::{Metadata, TraceContext};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

use crate::breadcrumbs::{assert_discreet, begin};
use crate::capture::spans;
use crate::meter::metric;

on_every_store!(
    runs_steps_and_queues_are_counted,
    what_follows_a_request_is_part_of_its_trace,
    a_request_sent_again_in_another_trace_is_the_same,
    a_queued_item_comes_with_the_trace_it_was_enqueued_in,
    events_of_several_traces_are_handled_in_none_of_them,
);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn trace(span: u64) -> TraceContext {
    let id = u128::from_str_radix(TRACE, 16).unwrap();
    TraceContext::new(id, span, true).unwrap().with_state("congo=1")
}

#[derive(Debug, Default, Clone)]
struct Order;

#[derive(Debug, Clone, PartialEq, Event)]
enum OrderEvent {
    Placed,
    Shipped,
}

impl Aggregate for Order {
    const KIND: &'static str = "traced";
    type Event = OrderEvent;

    fn apply(&mut self, _: &OrderEvent) {}
}

async fn events(tidelock: &Tidelock, stream: &str) -> Vec<StoredEvent> {
    tidelock.store().read_whole_stream(&StreamName::new(stream).unwrap()).await.unwrap()
}

async fn trace_of(tidelock: &Tidelock, stream: &str, nth: usize) -> Option<String> {
    let events = events(tidelock, stream).await;
    Metadata::of(events.get(nth)?).trace.map(|trace| trace.trace_id())
}

async fn pack(ctx: RunCtx, order: String) -> Result<String, StepError> {
    let seen = |_| async { Ok::<_, HandlerError>(TraceContext::current().unwrap().trace_id()) };
    let seen = ctx.step("look", seen).await?;
    ctx.transact("ship", async |tx: Tx| {
        tx.append(&tx.tidelock().aggregate::<Order>(format!("{order}-parcel")), OrderEvent::Shipped)
    })
    .await?;
    if !order.ends_with("child") {
        let child: String = ctx.child("child", "pack", &format!("{order}-child")).typed().await?;
        assert_eq!(child, seen);
    }
    Ok(seen)
}

/// TRACE-1, TRACE-3.
async fn what_follows_a_request_is_part_of_its_trace(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "traced"), stage.tidelock().await);
    let app = tidelock.app().worker(brisk("one")).workflow("pack", pack).reaction(
        &name,
        on::<OrderEvent>().in_streams(format!("traced-{name}")),
        |event: Recorded<OrderEvent>, ctx: ReactionCtx| async move {
            if event.event == OrderEvent::Placed {
                ctx.execute(
                    &ctx.tidelock().aggregate::<Order>(format!("{}-log", ctx.reaction())),
                    |_| Ok::<_, String>(OrderEvent::Shipped),
                )
                .await?;
                ctx.start("pack", format!("{}-run", ctx.reaction()), ctx.reaction()).await?;
            }
            Ok(())
        },
    );
    let running = Running::start(app);
    let order = tidelock.aggregate::<Order>(&name);
    trace(7).scope(order.append(OrderEvent::Placed)).await.unwrap();
    let run = tidelock.runs().run(format!("{name}-run"));
    until("the run is there", async || run.get().await.is_ok()).await;
    let seen = run.typed::<String>().result().await.unwrap();
    running.stop().await;
    assert_eq!(seen, TRACE, "a step is part of it");

    let placed =
        Metadata::of(&events(&tidelock, &format!("traced-{name}")).await[0]).trace.unwrap();
    assert_eq!(placed, trace(7), "with its span and its state");
    for stream in [
        format!("traced-{name}-log"),
        format!("~run/{name}-run"),
        format!("traced-{name}-parcel"),
        format!("traced-{name}-child-parcel"),
    ] {
        let found = trace_of(&tidelock, &stream, 0).await;
        assert_eq!(found.as_deref(), Some(TRACE), "stream {stream:?}");
    }
    let export: RunExport = run.export().await.unwrap();
    assert_eq!(Metadata::from_json(&export.entries()[0].metadata).trace, Some(trace(7)));
    // What nothing caused has none.
    order.append(OrderEvent::Shipped).await.unwrap();
    assert_eq!(trace_of(&tidelock, &format!("traced-{name}"), 1).await, None);
    assert_spans(&name);
    assert_discreet();
}

fn assert_spans(name: &str) {
    let handle = &spans("handle", "messaging.consumer.group.name", name)[0];
    let fields = |name: &str| handle.fields[name].as_str();
    assert_eq!(fields("messaging.system"), "tidelock");
    assert_eq!(fields("messaging.operation.type"), "process");
    assert_eq!(fields("messaging.destination.name"), format!("traced-{name}"));
    assert_eq!(
        (fields("otel.kind"), fields("otel.name")),
        ("consumer", &*format!("process {name}"))
    );
    assert!(!handle.fields["messaging.message.id"].is_empty());
    let run = format!("{name}-run");
    let turn = &spans("run", "tidelock.run.id", &run)[0];
    assert_eq!(turn.fields["messaging.destination.name"], "pack");
    let steps: Vec<_> = spans("step", "tidelock.run.id", &run)
        .iter()
        .map(|step| (step.fields["tidelock.step.name"].clone(), step.fields["otel.name"].clone()))
        .collect();
    assert_eq!(
        steps,
        [("look".to_owned(), "step look".to_owned()), ("ship".to_owned(), "step ship".to_owned())]
    );
    let commit = &spans("commit", "db.operation.name", "commit")[0];
    let systems = ["tidelock", "sqlite", "postgresql"];
    assert!(systems.contains(&&*commit.fields["db.system.name"]), "{commit:?}");
    assert!(!spans("route", "messaging.operation.name", "route").is_empty());
}

/// TRACE-4.
async fn a_request_sent_again_in_another_trace_is_the_same(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "again"), stage.tidelock().await);
    let order = tidelock.aggregate::<Order>(&name);
    let id = tidelock::store::EventId::fresh();
    let place = async |span| {
        let sent = order.decision().event_ids([id]).append(OrderEvent::Placed);
        trace(span).scope(sent).await.unwrap()
    };
    assert_eq!(place(1).await.version, place(2).await.version);
    let decide = async |span| {
        let decided = order.operation_id("ship").execute(|_| Ok::<_, String>(OrderEvent::Shipped));
        trace(span).scope(decided).await.unwrap()
    };
    assert_eq!(decide(3).await.version, decide(4).await.version);
    tidelock.start("pack", &name, &1).version(9).await.unwrap();
    let run = tidelock.runs().run(&name);
    for span in [5, 6] {
        trace(span).scope(async { run.signal("go", &1).id("once").await.unwrap() }).await;
        let item = tidelock.queue(&name).enqueue("a").operation_id("once");
        trace(span).scope(async { item.await.unwrap() }).await;
    }
    assert_eq!(events(&tidelock, &format!("traced-{name}")).await.len(), 2);
    assert_eq!(run.export().await.unwrap().entries().len(), 2);
}

/// TRACE-1.
async fn a_queued_item_comes_with_the_trace_it_was_enqueued_in(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "queued"), stage.tidelock().await);
    let queue = tidelock.queue(&name);
    trace(1).scope(async { queue.enqueue("a").data(&1).await.unwrap() }).await;
    queue.enqueue("b").data(&2).await.unwrap();
    let commit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.enqueue_item(tx.tidelock().queue(&name).enqueue("c"))
    });
    trace(2).scope(async { commit.await.unwrap() }).await;
    let mut leased = queue.lease("worker").limit(10).await.unwrap();
    leased.sort_by(|one, other| one.lease.item.key.cmp(&other.lease.item.key));
    let traces: Vec<_> = leased.iter().map(|item| item.trace.clone()).collect();
    assert_eq!(traces, [Some(trace(1)), None, Some(trace(2))]);
    let data: Vec<_> = leased.iter().map(|item| item.data.is_some()).collect();
    assert_eq!(data, [true, true, false]);
}

/// TRACE-3.
async fn events_of_several_traces_are_handled_in_none_of_them(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "several"), stage.tidelock().await);
    let order = tidelock.aggregate::<Order>(&name);
    let other = TraceContext::new(9, 9, false).unwrap();
    for trace in [trace(1), trace(2), other] {
        trace.scope(order.append(OrderEvent::Placed)).await.unwrap();
    }
    let seen = tidelock_test_stage::Observed::default();
    let noting = seen.clone();
    let source = on::<OrderEvent>().in_streams(format!("traced-{name}"));
    let app = tidelock.app().worker(brisk("one")).batch_reaction(
        &name,
        source,
        3,
        move |events: Vec<Recorded<OrderEvent>>, _| {
            let seen = noting.clone();
            async move {
                let current = TraceContext::current().map(|trace| trace.trace_id());
                seen.note(format!("{} in {current:?}", events.len()));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(1).await;
    running.stop().await;
    // With pages as small as possible there are fewer events at once.
    let expected = match &*seen.lines()[0] {
        "3 in None" => "3 in None".to_owned(),
        fewer => format!("{} in Some({TRACE:?})", fewer.split(' ').next().unwrap()),
    };
    assert_eq!(seen.lines()[0], expected);
}

/// METRIC-1.
async fn runs_steps_and_queues_are_counted(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "counted"), stage.tidelock().await);
    let flaky = |ctx: RunCtx, fails: bool| async move {
        let attempts = std::sync::atomic::AtomicU32::new(0);
        let retry = Retry::attempts(2).backoff(Backoff::fixed(std::time::Duration::from_millis(1)));
        let step = |_| {
            let nth = attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                match nth {
                    0 => Err(HandlerError::again("not yet")),
                    _ if fails => Err(HandlerError::again("never")),
                    _ => Ok(7),
                }
            }
        };
        ctx.step("try", step).retry(retry).await
    };
    let workflow = tidelock::runs::WorkflowOptions::<bool, i32>::named(&name);
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow(workflow, flaky));
    for fails in [false, true] {
        let run =
            tidelock.start(&name, format!("{name}-{fails}"), &fails).version(1).await.unwrap();
        assert_eq!(run.typed::<i32>().result().await.is_ok(), !fails);
    }
    running.stop().await;
    let steps = |outcome| metric(STEPS, &[("workflow", &name), ("outcome", outcome)]);
    assert_eq!((steps("done"), steps("retried"), steps("failed")), (1.0, 2.0, 1.0));
    let ended = |state| metric(RUNS_ENDED, &[("workflow", &name), ("state", state)]);
    assert_eq!((ended("completed"), ended("failed")), (1.0, 1.0));
    assert_eq!(metric(RUN_SECONDS, &[("workflow", &name)]), 2.0);

    let queue = tidelock.queue(&name);
    queue.enqueue("a").await.unwrap();
    let leased = queue.lease("worker").await.unwrap();
    queue.settle(vec![leased[0].lease.ack()]).await.unwrap();
    let of_queue = [("queue", &*name)];
    assert_eq!((metric(ENQUEUED, &of_queue), metric(LEASED, &of_queue)), (1.0, 1.0));
    assert_eq!(metric(SETTLED, &[("queue", &name), ("exit", "acked")]), 1.0);
}
