//! The server: one handler, and the layer around it.

use std::io::Read as _;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, StreamName};
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};

use super::Result;

/// Printed by a server once it listens, followed by its address.
pub(crate) const LISTENING: &str = "listening on ";

/// How long a killed server holds its keys. Short, so that the example is fast.
const LEASE: Duration = Duration::from_secs(1);

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Payment {
    pub(crate) amount: u64,
}

/// The event of a payment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Paid {
    pub(crate) key: String,
    pub(crate) amount: u64,
}

/// Serves until the parent process ends.
pub(crate) fn run(url: &str) -> Result<()> {
    std::thread::spawn(|| {
        let _closed = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let tidelock = Tidelock::open(url).await?;
        let keys = IdempotencyLayer::new(&tidelock).required().lease(LEASE);
        let app = Router::new().route("/payments", post(pay).layer(keys));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{LISTENING}{}", listener.local_addr()?);
        Ok(axum::serve(listener, app).await?)
    })
}

/// Pays, and records the response in the same commit: a crash leaves both or neither.
async fn pay(claimed: IdempotencyKey, Json(payment): Json<Payment>) -> Result<Response, Refusal> {
    ask_the_bank().await;
    let paid = Paid { key: claimed.key().to_owned(), amount: payment.amount };
    let event = NewEvent::of("paid", &paid)?;
    let receipt = (StatusCode::CREATED, event.id.to_string()).into_response();
    let commit = Commit::new().append(&stream()?, ExpectedVersion::Any, [event]);
    Ok(claimed.complete_with(receipt, commit).await?.into_response())
}

/// Takes a while, so that a kill can hit the middle of it.
async fn ask_the_bank() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
}

/// The stream of all payments.
pub(crate) fn stream() -> Result<StreamName, tidelock::store::StoreError> {
    StreamName::new("payments")
}

/// Nothing was paid: the key is free, and the client can retry.
struct Refusal(String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, self.0).into_response()
    }
}
