//! Sales of each tea.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::reactions::Subscription;

use crate::answer::Answer;
use crate::orders::Placed;

#[derive(Default, Serialize, Deserialize)]
pub struct Sold {
    orders: u64,
    units: i64,
}

/// Orders by tea: each tea has its own row.
pub fn source() -> Subscription<Recorded<Placed>> {
    on::<Placed>().to(|placed| placed.event.tea.clone())
}

pub fn count(sold: &mut Sold, placed: Recorded<Placed>) {
    sold.orders += 1;
    sold.units += placed.event.units;
}

pub fn routes() -> Router<Tidelock> {
    Router::new().route("/sold/{tea}", get(look))
}

async fn look(State(tidelock): State<Tidelock>, Path(tea): Path<String>) -> Answer<Json<Sold>> {
    let sold = tidelock.reactions().row("sold", &tea).await?;
    Ok(Json(sold.unwrap_or_default()))
}
