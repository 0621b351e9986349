//! The stock of each tea.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tidelock::prelude::*;

use crate::answer::{Answer, Sorry};

#[derive(Debug, Default, Clone, Serialize)]
pub struct Stock {
    left: i64,
}

#[derive(Debug, Event)]
#[event(prefix = "stock")]
pub enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64, order: String },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock"; // the stream of assam is `stock-assam`
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { units, .. } => self.left -= units,
        }
    }
}

impl Stock {
    fn receive(&self, units: i64) -> Result<StockEvent, String> {
        match units {
            1.. => Ok(StockEvent::Received { units }),
            _ => Err(format!("{units} cannot be received")),
        }
    }

    pub fn reserve(&self, units: i64, order: &str) -> Result<StockEvent, String> {
        if units < 1 || units > self.left {
            return Err(format!("{units} wanted, {} left", self.left));
        }
        Ok(StockEvent::Reserved { units, order: order.to_owned() })
    }
}

#[derive(Deserialize)]
struct Received {
    units: i64,
}

pub fn routes() -> Router<Tidelock> {
    Router::new().route("/stock/{tea}", get(look)).route("/stock/{tea}/received", post(receive))
}

async fn look(State(tidelock): State<Tidelock>, Path(tea): Path<String>) -> Answer<Json<Stock>> {
    let stock = tidelock.aggregate::<Stock>(tea).load().await?;
    Ok(Json(Stock::clone(&stock)))
}

async fn receive(
    State(tidelock): State<Tidelock>,
    Path(tea): Path<String>,
    Json(received): Json<Received>,
) -> Answer<Json<Stock>> {
    let stock = tidelock.aggregate::<Stock>(&tea);
    stock.execute(|stock| stock.receive(received.units)).await.map_err(Sorry::undecided)?;
    look(State(tidelock), Path(tea)).await
}
