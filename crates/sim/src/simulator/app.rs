//! The application of a simulated process: reactions, workflows and a schedule.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::runs::CatchUp;
use tidelock::store::{
    Bounds, Commit, NewEvent, RecordWrite, StoreExt, StoredEvent, StreamName, WorkerName,
};
use tidelock::worker::{PollInterval, WorkerOptions};
use tidelock::{App, BuildError};

use super::clients::do_chore;
use super::fault::Fault;
use super::mutants::Mutant;
use super::process::Process;
use super::state::{Chore, record};
use crate::history::{Note, Phase, StepPromise};

/// The workflow that clients, reactions and the schedule start. Its input says which operations it
/// has, by bits.
pub(crate) const ORDER: Workflow<u64, String> = Workflow::new("order");
/// The workflow of its child.
pub(crate) const PART: Workflow<u64, String> = Workflow::new("part");

pub(crate) const SLEEPS: u64 = 1;
pub(crate) const WAITS: u64 = 2;
pub(crate) const HAS_CHILD: u64 = 4;
pub(crate) const RACES: u64 = 8;
pub(crate) const FAILS: u64 = 16;

/// The reactions to work that operators reset: the one that follows each stream, the one that
/// gathers, and the projection. Another one shelves books, and is never reset.
pub(crate) const REACTIONS: [&str; 3] = ["follow", "gather", "tally"];

/// What a handler stages about an event that it handled.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handled {
    pub(crate) event: String,
    pub(crate) fence: u64,
}

/// The row of the projection.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) last: u64,
}

/// The target of an event in the reaction that gathers.
pub(crate) fn gathered(event: &StoredEvent) -> String {
    format!("pile-{}", event.version.get() % 2)
}

/// The stream in which a reaction records what it handled.
pub(crate) fn handled(reaction: &str, target: &str) -> String {
    format!("handled/{reaction}/{target}")
}

/// The application of this process, in its version of the code.
pub(crate) fn app(process: &Process, tidelock: &Tidelock) -> Result<App, BuildError> {
    let lease = process.world.plan.lease;
    let mut options =
        WorkerOptions::new(WorkerName::new(process.name()).expect("it is short and plain"));
    options.max_concurrency = 8;
    options.poll_interval =
        PollInterval { least: Duration::from_secs(1), per_queue: Duration::ZERO };
    options.shutdown_timeout = Duration::from_secs(10);
    let backoff = Backoff::exponential(Duration::from_millis(200), Duration::from_secs(5));
    let source = || {
        on_any()
            .in_streams("work-")
            .lease(lease)
            .max_crashes(u32::MAX)
            .retry(Retry::attempts(4).backoff(backoff))
    };
    let (follower, gatherer, shelver) = (process.clone(), process.clone(), process.clone());
    let (old, new, part) = (process.clone(), process.clone(), process.clone());
    let mut builder = tidelock
        .app()
        .worker(options)
        .route_lease(lease)
        .reaction("follow", source(), move |event: StoredEvent, ctx: ReactionCtx| {
            handle(follower.clone(), "follow", vec![event], ctx)
        })
        .batch_reaction(
            "gather",
            source().to(gathered),
            4,
            move |events: Vec<StoredEvent>, ctx: ReactionCtx| {
                handle(gatherer.clone(), "gather", events, ctx)
            },
        )
        .projection("tally", source(), |row: &mut Tally, event: StoredEvent| {
            row.events += 1;
            row.last = event.version.get();
        })
        .reaction(
            "shelve",
            on_any().in_streams("books-").lease(lease).max_crashes(u32::MAX),
            move |event: StoredEvent, ctx: ReactionCtx| {
                handle(shelver.clone(), "shelve", vec![event], ctx)
            },
        )
        .workflow(settings(ORDER, lease).version(1), move |ctx: RunCtx, shape: u64| {
            order(old.clone(), 1, ctx, shape)
        })
        .workflow(settings(PART, lease), move |ctx: RunCtx, nth: u64| {
            child(part.clone(), ctx, nth)
        });
    let chores = process.clone();
    builder = builder.job(move |chore: Chore, ctx: JobCtx| do_chore(chores.clone(), chore, ctx));
    if process.version() == 2 {
        builder = builder.workflow(settings(ORDER, lease).version(2), {
            move |ctx: RunCtx, shape: u64| order(new.clone(), 2, ctx, shape)
        });
    }
    builder.build()
}

fn settings(
    workflow: Workflow<u64, String>,
    lease: Duration,
) -> tidelock::runs::WorkflowOptions<u64, String> {
    workflow.options().lease(lease).max_crashes(u32::MAX)
}

/// The schedule that starts a run every few seconds.
pub(crate) fn schedule() -> Schedule {
    Schedule::cron("*/15 * * * * *").starts(ORDER, &0).catch_up(CatchUp::Once)
}

/// Handles events of one target: an effect outside of the store, and one in the commit of the ack.
async fn handle(
    process: Process,
    reaction: &'static str,
    events: Vec<StoredEvent>,
    ctx: ReactionCtx,
) -> Result<(), HandlerError> {
    let (target, fence) = (ctx.target().as_str().to_owned(), ctx.lease().fence.get());
    let resets = process
        .world
        .facts(|facts| u64::from(facts.reset.contains(&(reaction.to_owned(), target.clone()))));
    let note = |event: &StoredEvent, phase| Note::Reaction {
        reaction: reaction.to_owned(),
        target: target.clone(),
        rebuild: resets,
        event: event.id.to_string(),
        fence: Some(fence),
        phase,
    };
    for event in &events {
        process.alive().await;
        process.world.remark(process.name(), note(event, Phase::Started));
        fail_sometimes(&process).await?;
        let key = ctx.effect_key_of(event.id);
        if process.world.effect("handler", &key) > 1 {
            process.world.sometimes("handler runs again for an event");
        }
        process.world.remark(process.name(), note(event, Phase::Effect(key)));
    }
    // The last event of closed books is no booking.
    let told = events.iter().filter(|event| !event.event_type.as_str().starts_with('~'));
    let records = told.map(|event| Handled { event: event.id.to_string(), fence });
    let records =
        records.map(|record| NewEvent::of("handled", &record)).collect::<Result<Vec<_>, _>>()?;
    if records.is_empty() {
        return Ok(());
    }
    let stream = StreamName::new(handled(reaction, ctx.target().as_str()))?;
    if process.is(Mutant::HandlersWriteOutside) {
        let _landed = ctx.store().append(&stream, ExpectedVersion::Any, records).await?;
    } else {
        ctx.append_to(&stream, ExpectedVersion::Any, records)?;
    }
    if reaction == "follow" && !ctx.is_rebuild() {
        // An event leads to its run exactly once.
        for event in events.iter().filter(|event| event.version.get() % 6 == 0) {
            let run = format!("from-{}-{}", event.stream, event.version);
            let _run = ctx.start(ORDER, run, &(SLEEPS | HAS_CHILD)).await?;
        }
    }
    process.alive().await;
    Ok(())
}

/// What can be wrong with code of the user.
pub(crate) async fn fail_sometimes(process: &Process) -> Result<(), HandlerError> {
    if process.strikes(Fault::HandlerHangs) {
        process.sleep(process.world.plan.lease * 2).await;
    } else {
        let pause =
            process.draw(|rng| if rng.one_in(3) { rng.millis(1, 300) } else { Duration::ZERO });
        process.sleep(pause).await;
    }
    if process.strikes(Fault::HandlerPanics) {
        panic!("{SIMULATED_PANIC}");
    }
    if process.strikes(Fault::HandlerFails) {
        return Err(HandlerError::again("a simulated failure"));
    }
    if process.strikes(Fault::HandlerRefuses) {
        return Err(HandlerError::fatal("a simulated refusal"));
    }
    Ok(())
}

/// The message of a panic that is part of the simulation.
pub(crate) const SIMULATED_PANIC: &str = "a simulated panic";

/// An effect outside of the store.
async fn act(
    process: &Process,
    key: StepKey,
    promise: StepPromise,
) -> Result<String, HandlerError> {
    process.alive().await;
    let note = |phase| Note::Step {
        run: key.run().to_string(),
        step: key.step().to_string(),
        promise,
        fence: None,
        phase,
    };
    process.world.remark(process.name(), note(Phase::Started));
    fail_sometimes(process).await?;
    let kind = if promise == StepPromise::AtMostOnce { "at most once" } else { "step" };
    if process.world.effect(kind, &key.to_string()) > 1 {
        process.world.sometimes("step runs again");
    }
    process.world.remark(process.name(), note(Phase::Effect(key.to_string())));
    Ok("done".to_owned())
}

/// The workflow with operations of every kind.
async fn order(
    process: Process,
    version: u32,
    ctx: RunCtx,
    shape: u64,
) -> Result<String, StepError> {
    use StepPromise::{AtLeastOnce, AtMostOnce};
    let run = ctx.run().to_string();
    let retry = || Retry::attempts(3).backoff(Backoff::fixed(Duration::from_millis(500)));
    ctx.step("call", |key| act(&process, key, AtLeastOnce)).retry(retry()).await?;
    let reserved = run.clone();
    ctx.transact("count", async |tx: Tx| count(&process, tx, &run).await)
        .compensate(move |_, tx: Tx| {
            let run = reserved.clone();
            async move { tx.add(format!("count/{run}"), -1, ..) }
        })
        .await?;
    // The older deployed code does not know the patch: runs that took it are parked there.
    if version == 2 || process.version() == 2 && ctx.patched("weigh-first").await? {
        ctx.step("weigh", |key| act(&process, key, AtLeastOnce)).retry(retry()).await?;
    }
    let unknown = tidelock::runs::OnUnknownOutcome::Skip("unknown".to_owned());
    let send = ctx.step("send", |key| act(&process, key, AtMostOnce)).at_most_once(unknown);
    if send.await? == "unknown" {
        process.world.sometimes("step has an unknown outcome");
    }
    if shape & SLEEPS != 0 {
        ctx.sleep("nap", Duration::from_secs(2 + shape % 7)).await?;
        process.world.sometimes("run is suspended and continues");
    }
    if shape & RACES != 0 {
        let nap = ctx.sleep("long-nap", Duration::from_secs(20));
        let told = ctx.wait_for_signal::<()>("hurry");
        let _winner = ctx.race("first", nap, told).await?;
    }
    if shape & HAS_CHILD != 0 {
        let _part = ctx.child("part", PART, &shape).await?;
        process.world.sometimes("child run ends");
    }
    if shape & WAITS != 0 {
        let (): () = ctx.wait_for_signal("go").await?;
    }
    if shape & FAILS != 0 {
        ctx.step("refuse", |_| async { Err::<(), _>(HandlerError::fatal("as its shape says")) })
            .await?;
    }
    ctx.step("thank", |key| act(&process, key, AtLeastOnce)).retry(retry()).await?;
    Ok("done".to_owned())
}

/// Counts a run.
async fn count(process: &Process, tx: Tx, run: &str) -> Result<i64, HandlerError> {
    if process.is(Mutant::StepsWriteOutside) {
        let add = RecordWrite::add(&record(format!("count/{run}")), 1, Bounds::NONE);
        let _landed = tx.store().commit(Commit::new().write(add).with_retry_id()).await?;
        process.alive().await;
        return Ok(1);
    }
    tx.add(format!("count/{run}"), 1, ..)?;
    Ok(1)
}

/// The workflow of a part.
async fn child(process: Process, ctx: RunCtx, _: u64) -> Result<String, StepError> {
    let run = ctx.run().to_string();
    ctx.transact("count", async |tx: Tx| tx.add(format!("count/{run}"), 1, ..)).await?;
    ctx.sleep("nap", Duration::from_secs(1)).await?;
    ctx.step("thank", |key| act(&process, key, StepPromise::AtLeastOnce)).await
}
