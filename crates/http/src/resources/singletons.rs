//! Singletons: one winner per name and period; later callers learn who won.

use axum::Json as Answer;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Outcome;
use tidelock::claims::{Singleton, SingletonTaken};
use tidelock::problem::Problem;
use tidelock::store::RawJson;
use utoipa::ToSchema;

use super::claims::asked_by;
use super::durations::Millis;
use super::period::{Per, period, zone};
use super::{durations, named};
use crate::auth::Caller;
use crate::extract::{Body, InPath};
use crate::idempotency::OnceClaims;

/// A request to take a singleton.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TakeSingletonRequest {
    /// Details for later callers.
    #[schema(value_type = Option<Value>)]
    details: Option<RawJson>,
    /// One winner per calendar period; a single one by default.
    per: Option<Per>,
    /// One winner per period of this length.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// The time zone of days and hours; UTC by default.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
    /// How long the winner is kept; indefinitely by default.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
    /// The winner's name; the name of the token by default.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// A singleton that was won.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SingletonTaken)]
pub(crate) struct SingletonDto {
    /// `won`.
    #[schema(example = "won")]
    outcome: &'static str,
}

/// Take a singleton: once per name and period.
#[utoipa::path(post, path = "/v1/singletons/{key}", tag = "singletons",
    params(
        ("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1),
    ),
    request_body = TakeSingletonRequest,
    responses(
        (status = 201, description = "Won", body = SingletonDto),
        (status = 409, description = "The singleton is taken: by whom, when, and with which details"),
    ))]
pub(crate) async fn take(
    InPath(name): InPath<String>,
    caller: Caller,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<TakeSingletonRequest>,
) -> Result<Response, Problem> {
    let (first, rest) = named::parts(&name)?;
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let mut singleton = rest
        .iter()
        .fold(claims.singleton(first), Singleton::of)
        .per(period(asked.per, asked.every_ms)?)
        .zone(zone(asked.zone.as_deref())?);
    if let Some(ttl) = asked.ttl_ms {
        singleton = singleton.ttl(durations::some(ttl, "ttl_ms")?);
    }
    match singleton.take(&asked.details).await? {
        Outcome::Granted(()) => {
            Ok((StatusCode::CREATED, Answer(SingletonDto { outcome: "won" })).into_response())
        }
        Outcome::Refused(winner) => Err(taken(&winner)),
    }
}

fn taken(winner: &SingletonTaken) -> Problem {
    // The details are included if they can be parsed.
    let details = winner.details::<RawJson>().ok().flatten();
    Problem::conflict("taken", winner.to_string())
        .with("by", &winner.by)
        .with("at", winner.at)
        .with("until", winner.until)
        .with("details", details)
}
