//! The demo's shop while the inspector is open: orders that reserve stock, labels that are printed
//! for them, and checkouts that wait for approval. Now and then an order has no address, and its
//! label waits for an operator.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidelock::App;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoreExt, StoredEvent, StreamName};
use tokio::sync::watch;

use crate::failure::Failure as Stopped;

/// The interval between orders.
const PAUSE: Duration = Duration::from_millis(1_500);
/// One in so many orders has no address.
const NAMELESS: u64 = 7;
/// One in so many orders is large enough to need approval.
const LARGE: u64 = 4;
/// Teapots in a delivery.
const DELIVERY: i64 = 50;

/// The stock of teapots, and the newest reservations.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Stock {
    left: i64,
    reserved: u64,
    newest: Vec<String>,
}

#[derive(Debug, Clone, Event)]
pub(super) enum StockEvent {
    Received { units: i64 },
    Reserved { order: String },
}

impl Aggregate for Stock {
    const KIND: &'static str = "teapots";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { order } => {
                self.left -= 1;
                self.reserved += 1;
                self.newest.insert(0, order.clone());
                self.newest.truncate(5);
            }
        }
    }
}

/// Sells teapots until it is stopped.
pub(super) async fn go_on(
    tidelock: Tidelock,
    prefix: String,
    mut stopped: watch::Receiver<()>,
) -> Result<(), Stopped> {
    let until = stopped.clone();
    let app = program(&tidelock, &prefix)?;
    let running = tokio::spawn(app.run_until(async move {
        let mut until = until;
        while until.changed().await.is_ok() {}
    }));
    for nth in 1.. {
        order(&tidelock, &prefix, nth).await?;
        // The sender is dropped when the inspector is closed.
        if tokio::time::timeout(PAUSE, stopped.changed()).await.is_ok() {
            break;
        }
    }
    super::stage::joined(running).await??;
    Ok(())
}

/// One order, with its own correlation: a teapot, the order, and, if it is large, a run.
async fn order(tidelock: &Tidelock, prefix: &str, nth: u64) -> Result<(), Stopped> {
    let order = format!("{prefix}sale-{nth}");
    let metadata = Metadata::new().correlated(format!("{prefix}request-{nth}")).by("ada");
    let reserve = |stock: &Stock| {
        let delivery = (stock.left == 0).then_some(StockEvent::Received { units: DELIVERY });
        let reserved = StockEvent::Reserved { order: order.clone() };
        Ok::<_, String>(delivery.into_iter().chain([reserved]).collect::<Vec<_>>())
    };
    let stock = tidelock.aggregate::<Stock>(format!("{prefix}blue"));
    stock.decision().metadata(metadata.clone()).execute(reserve).await.map_err(|e| broken(&e))?;
    let address =
        if nth.is_multiple_of(NAMELESS) { Value::Null } else { json!(format!("Dock {nth}")) };
    let placed =
        json!({ "address": address, "units": 1 + nth % 3, "large": nth.is_multiple_of(LARGE) });
    let placed = NewEvent::of("placed", &placed)?.with_metadata(metadata.to_json()?);
    let placed = tidelock
        .store()
        .append(&StreamName::new(order)?, ExpectedVersion::Any, vec![placed])
        .await?;
    placed.committed().map_err(|e| broken(&e))?;
    Ok(())
}

fn program(tidelock: &Tidelock, prefix: &str) -> Result<App, Stopped> {
    let (labels, checkout) = (format!("{prefix}post"), format!("{prefix}approval"));
    let starts = checkout.clone();
    let print = move |order: StoredEvent, ctx: ReactionCtx| {
        let checkout = starts.clone();
        async move { label(&order, &ctx, &checkout).await }
    };
    let source = on_any()
        .in_streams(format!("{prefix}sale-"))
        .retry(Retry::attempts(2).backoff(Backoff::fixed(PAUSE)));
    let app = tidelock.app().reaction(&labels, source, print).workflow(checkout, approval).build();
    app.map_err(|e| Stopped::Broken(format!("the shop cannot be registered: {e}")))
}

/// Prints the label of an order, and starts the approval of a large one.
async fn label(order: &StoredEvent, ctx: &ReactionCtx, checkout: &str) -> Result<(), HandlerError> {
    let placed: Value = order.payload.to()?;
    let Some(address) = placed["address"].as_str() else {
        return Err(HandlerError::again(format!(
            "order {:?} has no address",
            order.stream.as_str()
        )));
    };
    if placed["large"] == json!(true) {
        ctx.start(checkout, order.stream.as_str(), order.stream.as_str()).version(1).await?;
    }
    let label = NewEvent::of("printed", &json!({ "address": address }))?;
    ctx.append_to(format!("label-{}", order.stream), ExpectedVersion::Any, [label])?;
    Ok(())
}

/// Checks the customer, and waits for approval.
async fn approval(ctx: RunCtx, order: String) -> Result<String, StepError> {
    ctx.step("check-customer", |_| async { Ok::<_, HandlerError>("known since 2019".to_owned()) })
        .await?;
    ctx.sleep("cool-down", PAUSE).await?;
    let approved: Value = ctx.wait_for_signal("approved").await?;
    let shipped = format!("{order}, approved: {approved}");
    ctx.step("ship", |_| async { Ok::<_, HandlerError>(shipped.clone()) }).await
}

fn broken(error: &impl std::fmt::Display) -> Stopped {
    Stopped::Broken(format!("the shop cannot continue: {error}"))
}
