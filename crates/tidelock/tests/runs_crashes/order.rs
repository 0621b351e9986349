//! A run with a step of every kind: at-least-once, transactional, at-most-once, a sleep, a child, a
//! wait.
//!
//! Effects are noted outside the store, with their key; effects in the store are counted there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock::runs::{
    OnUnknownOutcome, RunCtx, RunHandle, RunId, StepError, StepKey, WorkflowOptions,
};
use tidelock::store::{Bounds, RecordKey, RecordWrite};

use crate::crash_point::{CrashPoint, Side};

/// A lease that is renewed even on a busy machine, for healthy processes.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(30);
/// The result of a completed step.
pub(crate) const DONE: &str = "done";
/// The result of a step with an unknown outcome.
pub(crate) const UNKNOWN: &str = "unknown";
/// At-least-once steps.
pub(crate) const AT_LEAST_ONCE: [&str; 2] = ["charge", "thank"];
/// The at-most-once step.
pub(crate) const AT_MOST_ONCE: &str = "ship";
/// Every effect that a process can die at.
pub(crate) const EFFECTS: [&str; 6] = ["charge", LOOK, "reserve", "ship", "pack", "thank"];
/// The effect of the function itself, after the first step.
pub(crate) const LOOK: &str = "look";

/// The result of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) charged: String,
    pub(crate) shipped: String,
    pub(crate) delivered: String,
    pub(crate) approved: String,
    pub(crate) thanked: String,
}

/// Performs the effects.
#[derive(Clone)]
pub(crate) struct Hands {
    note: Arc<dyn Fn(&str) + Send + Sync>,
    doom: Option<CrashPoint>,
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("doom", &self.doom).finish_non_exhaustive()
    }
}

impl Hands {
    /// Notes every effect, and never dies.
    pub(crate) fn new(note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { note: Arc::new(note), doom: None }
    }

    /// Adds a crash point.
    pub(crate) fn doomed(mut self, doom: &CrashPoint) -> Self {
        self.doom = Some(doom.clone());
        self
    }

    fn pass(&self, side: Side, what: &str) {
        self.doom.iter().for_each(|doom| doom.at_effect(side, what));
    }

    /// An effect outside of any step.
    fn look(&self, run: &RunId) {
        (self.note)(&format!("{run} {LOOK} {run}"));
        self.pass(Side::After, LOOK);
    }

    /// An external effect.
    async fn act(&self, key: StepKey) -> Result<String, HandlerError> {
        self.pass(Side::Before, key.step().as_str());
        (self.note)(&format!("{} {} {key}", key.run(), key.step()));
        self.pass(Side::After, key.step().as_str());
        Ok(DONE.into())
    }

    /// An effect in the store.
    async fn count(&self, tx: Tx) -> Result<(), HandlerError> {
        let (_, step) = tx.effect_key().rsplit_once(':').expect("it is RUN:STEP");
        self.pass(Side::Before, step);
        tx.write(RecordWrite::add(&counter(tx.effect_key()), 1, Bounds::NONE))?;
        self.pass(Side::After, step);
        Ok(())
    }
}

/// The counter of a step in the store.
pub(crate) fn counter(key: &str) -> RecordKey {
    RecordKey::new(format!("count/{key}")).unwrap()
}

/// Registers the workflows of an order and of its child, under unique names: a process serves only
/// its own.
pub(crate) fn register(app: AppBuilder, name: &str, hands: &Hands, lease: Duration) -> AppBuilder {
    let (own, childs, parcel) = (hands.clone(), hands.clone(), format!("parcel-{name}"));
    let (orders, parcels) = (
        WorkflowOptions::named(format!("order-{name}")).lease(lease),
        WorkflowOptions::named(&parcel).lease(lease),
    );
    app.workflow(orders, move |ctx, (): ()| order(ctx, parcel.clone(), own.clone()))
        .workflow(parcels, move |ctx, (): ()| pack(ctx, childs.clone()))
}

async fn order(ctx: RunCtx, parcel: String, hands: Hands) -> Result<Receipt, StepError> {
    let charged = ctx.step("charge", |key| hands.act(key)).await?;
    hands.look(ctx.run());
    ctx.transact("reserve", |tx| hands.count(tx)).await?;
    let ship = ctx.step("ship", |key| hands.act(key));
    let shipped = ship.at_most_once(OnUnknownOutcome::Skip(UNKNOWN.into())).await?;
    ctx.sleep("cool-down", Duration::from_millis(5)).await?;
    let delivered = ctx.child("parcel", &parcel, &()).typed().await?;
    let approved = ctx.wait_for_signal("approve").await?;
    let thanked = ctx.step("thank", |key| hands.act(key)).await?;
    Ok(Receipt { charged, shipped, delivered, approved, thanked })
}

async fn pack(ctx: RunCtx, hands: Hands) -> Result<String, StepError> {
    ctx.transact("pack", |tx| hands.count(tx)).await?;
    Ok(DONE.into())
}

/// Starts the run, and approves it: once, however often it is called.
pub(crate) async fn place(tidelock: &Tidelock, name: &str) -> RunHandle {
    let start = tidelock.start(&format!("order-{name}"), name, &()).version(1);
    let run = start.await.unwrap();
    run.signal("approve", "ada").id("approval").await.unwrap();
    run
}
