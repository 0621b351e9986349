//! A free sample: one for each customer.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use serde_json::json;
use tidelock::prelude::*;

use crate::answer::{Answer, Sorry};

pub fn routes() -> Router<Tidelock> {
    Router::new().route("/samples/{customer}/{tea}", post(give))
}

async fn give(
    State(tidelock): State<Tidelock>,
    Path((customer, tea)): Path<(String, String)>,
) -> Answer<String> {
    let given = event("sample.given", json!({ "customer": customer, "tea": tea }));
    let with = tidelock.commit().append("samples", ExpectedVersion::Any, given).build()?;
    let sample = tidelock.singleton("sample").of(&customer);
    match sample.take_with(&tea, with).await? {
        Outcome::Granted(()) => Ok(format!("a sample of {tea} for {customer}")),
        Outcome::Refused(first) => {
            let had = first.details::<String>()?.unwrap_or_default();
            Err(Sorry::no(format!("{customer} had a sample of {had}")))
        }
    }
}
