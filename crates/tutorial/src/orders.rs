//! Orders: each takes its tea from the stock, in one commit.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::store::Commit;
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};

use crate::answer::{Answer, Sorry};
use crate::stock::Stock;

#[derive(Debug, Default, Clone)]
struct Order {
    is_placed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(prefix = "order")]
pub struct Placed {
    pub tea: String,
    pub units: i64,
}

impl Aggregate for Order {
    const KIND: &'static str = "order";
    type Event = Placed;

    fn apply(&mut self, _: &Placed) {
        self.is_placed = true;
    }
}

impl Order {
    fn place(&self, placed: &Placed) -> Result<Placed, String> {
        match self.is_placed {
            false => Ok(placed.clone()),
            true => Err("there is such an order already".to_owned()),
        }
    }
}

#[derive(Deserialize)]
struct Wanted {
    id: String,
    #[serde(flatten)]
    placed: Placed,
}

pub fn routes(keys: &IdempotencyLayer) -> Router<Tidelock> {
    Router::new().route("/orders", post(place).layer(keys.clone().required()))
}

async fn place(
    State(tidelock): State<Tidelock>,
    Extension(claimed): Extension<IdempotencyKey>,
    Json(Wanted { id, placed }): Json<Wanted>,
) -> Answer<Response> {
    let (stock, order) =
        (tidelock.aggregate::<Stock>(&placed.tea), tidelock.aggregate::<Order>(&id));
    let receipt = format!("order-{id}: {} of {}", placed.units, placed.tea);
    let (kept, receipt) =
        claimed.completion((StatusCode::CREATED, receipt).into_response()).await?;
    tidelock
        .decide((&stock, &order))
        .also(Commit::new().write(kept))
        .execute(|(stock, order)| Ok((stock.reserve(placed.units, &id)?, order.place(&placed)?)))
        .await
        .map_err(Sorry::undecided)?;
    Ok(receipt.into_response())
}
