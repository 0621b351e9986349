//! Deliveries: from an order to the tea at its customer's door.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use tidelock::prelude::*;
use tidelock::runs::RunStatus;

use crate::answer::Answer;
use crate::orders::Placed;

/// The workflow: its name, its input and its result.
pub const DELIVERY: Workflow<Placed, String> = Workflow::new("delivery");
const TWO_DAYS: Duration = Duration::from_secs(2 * 24 * 3_600);

/// A reaction: every placed order starts a run, named after the order's stream.
pub async fn begin(placed: Recorded<Placed>, ctx: ReactionCtx) -> Result<(), HandlerError> {
    ctx.start(DELIVERY, placed.stream.as_str(), &placed.event).await?;
    Ok(())
}

/// The run: wait until the order is packed, buy a label, hand it to the carrier.
pub async fn deliver(ctx: RunCtx, order: Placed) -> Result<String, StepError> {
    let Some(packer) = ctx.wait_for_signal::<String>("packed").within(TWO_DAYS).await? else {
        return Ok("it was not packed in time".to_owned());
    };
    let label = ctx.step("label", buy_label).await?;
    ctx.step("hand-over", |_key| hand_over(&order, &packer, &label)).await
}

/// The carrier sells one label for each key.
async fn buy_label(key: StepKey) -> Result<String, HandlerError> {
    println!("buying a label from the carrier, key {key}");
    Ok(format!("label {key}"))
}

async fn hand_over(order: &Placed, packer: &str, label: &str) -> Result<String, HandlerError> {
    Ok(format!("{} of {}, packed by {packer}, with {label}", order.units, order.tea))
}

pub fn routes() -> Router<Tidelock> {
    Router::new()
        .route("/deliveries/{order}", get(look))
        .route("/deliveries/{order}/packed", post(packed))
}

async fn look(
    State(tidelock): State<Tidelock>,
    Path(order): Path<String>,
) -> Answer<Json<RunStatus>> {
    Ok(Json(tidelock.runs().run(&order).status().await?))
}

/// One signal, however often the button is pressed.
async fn packed(
    State(tidelock): State<Tidelock>,
    Path(order): Path<String>,
    Json(packer): Json<String>,
) -> Answer<&'static str> {
    tidelock.runs().run(&order).signal("packed", &packer).id("packed").await?;
    Ok("noted")
}
