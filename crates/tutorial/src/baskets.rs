//! Baskets: a customer may change one from several windows at once.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tidelock::prelude::*;

use crate::answer::Answer;
use crate::orders::Placed;

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Basket {
    teas: BTreeMap<String, i64>,
}

pub fn routes() -> Router<Tidelock> {
    Router::new().route("/baskets/{customer}", get(look).post(add))
}

async fn look(
    State(tidelock): State<Tidelock>,
    Path(customer): Path<String>,
) -> Answer<Json<Basket>> {
    Ok(Json(basket(&tidelock, &customer).get().await?))
}

async fn add(
    State(tidelock): State<Tidelock>,
    Path(customer): Path<String>,
    Json(Placed { tea, units }): Json<Placed>,
) -> Answer<Json<i64>> {
    let now = basket(&tidelock, &customer)
        .mutate(|basket| {
            let count = basket.teas.entry(tea.clone()).or_default();
            *count += units;
            *count
        })
        .await?;
    Ok(Json(now.value))
}

fn basket(tidelock: &Tidelock, customer: &str) -> Scope<Basket> {
    tidelock.scope(ScopeKind::SESSION, customer)
}
