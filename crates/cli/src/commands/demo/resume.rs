//! Scene: a run loses its worker in the middle of a step, and another one resumes it (RUN-1,
//! RUN-2).

use std::time::Duration;

use tidelock::App;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, StepError, WorkflowOptions};
use tidelock::store::{RecordKey, StoreExt};
use tidelock::worker::WorkerOptions;
use tokio::sync::{mpsc, oneshot};

use super::stage::{Stage, joined, worker};
use crate::failure::Failure as Stopped;

/// How long a run waits for a dead worker.
const LEASE: Duration = Duration::from_millis(300);
/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state that the run's steps share.
#[derive(Debug, Clone)]
struct Shop {
    charges: RecordKey,
    /// Receives the idempotency key of each packed parcel.
    packed: mpsc::UnboundedSender<String>,
    /// Whether packing ever ends here.
    packs: bool,
}

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    stage.scene("A run loses its worker in the middle of a step, and is resumed")?;
    let (packed, mut parcels) = mpsc::unbounded_channel();
    let shop = Shop { charges: stage.record("charges")?, packed, packs: false };
    let (workflow, run) = (stage.name("checkout"), stage.name("order-9"));
    let here = Tidelock::over(stage.store.clone());

    // A separate runtime, so that all of it can be torn down at once, like a power failure.
    let first =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let app = application(&here, "first", &workflow, shop.clone())?;
    first.spawn(app.run());
    let run = here.start(&workflow, &run, "tea").version(1).await.map_err(broken)?;
    let Some(key) = next(&mut parcels).await else {
        return stage.broken("the run is driven", "nothing happens");
    };
    stage.say("worker first charges the card, starts to pack, and dies")?;
    first.shutdown_background();

    let (stop, stopped) = oneshot::channel::<()>();
    let there = Tidelock::over(stage.other.clone());
    let app = application(&there, "second", &workflow, Shop { packs: true, ..shop.clone() })?;
    let running = tokio::spawn(app.run_until(async move { drop(stopped.await) }));
    let result = run.typed::<String>().result().within(PATIENCE).await.map_err(broken)?;
    let again = next(&mut parcels).await;
    drop(stop);
    joined(running).await??;
    stage.say(&format!(
        "worker second takes over, does not charge again, packs, and ships: {result}"
    ))?;

    let charges: i64 = match stage.store.get_one(&shop.charges).await?.into_live() {
        Some(record) => record.value.to()?,
        None => 0,
    };
    stage.prove("the card was charged once", charges == 1, &format!("{charges} times"))?;
    let holds = again.as_ref() == Some(&key) && result == "tea, shipped";
    let claim = format!("the interrupted step was repeated under the same key, {key:?}");
    stage.prove(&claim, holds, &format!("{again:?}, {result:?}"))
}

async fn checkout(ctx: RunCtx, what: String, shop: Shop) -> Result<String, StepError> {
    ctx.transact("charge", async |tx: Tx| tx.add(&shop.charges, 1, ..)).await?;
    ctx.step("pack", |key| pack(&shop, key.to_string())).await?;
    ctx.step("ship", |_key| async { Ok::<_, HandlerError>(format!("{what}, shipped")) }).await
}

async fn pack(shop: &Shop, key: String) -> Result<(), HandlerError> {
    // The receiver is gone once the scene is over.
    let _ = shop.packed.send(key);
    match shop.packs {
        true => Ok(()),
        false => std::future::pending().await,
    }
}

fn application(
    tidelock: &Tidelock,
    name: &str,
    workflow: &str,
    shop: Shop,
) -> Result<App, Stopped> {
    let options = WorkflowOptions::named(workflow).lease(LEASE);
    let checkout = move |ctx, what| checkout(ctx, what, shop.clone());
    let app = tidelock.app().worker(WorkerOptions::new(worker(name)?));
    app.workflow(options, checkout)
        .build()
        .map_err(|e| Stopped::Broken(format!("the workflow cannot be registered: {e}")))
}

fn broken(error: impl std::fmt::Display) -> Stopped {
    Stopped::Broken(format!("the run's result cannot be read: {error}"))
}

async fn next(parcels: &mut mpsc::UnboundedReceiver<String>) -> Option<String> {
    tokio::time::timeout(PATIENCE, parcels.recv()).await.ok().flatten()
}
