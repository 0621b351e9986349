//! Singletons: one of a kind for a name, and for a period; whoever comes too late learns who was
//! first.

use axum::Json as Answer;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::claims::{Singleton, SingletonOutcome, SingletonTaken};
use tidelock::{Commit, RawJson};
use utoipa::ToSchema;

use super::claims::{asked_by, refused};
use super::period::{Per, period, zone};
use super::span::Millis;
use super::{named, span};
use crate::auth::Caller;
use crate::extract::{Body, InPath};
use crate::idempotency::OnceClaims;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// What is taken, and for how long it counts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Taking {
    /// What those who come too late are to learn.
    #[schema(value_type = Option<Value>)]
    details: Option<RawJson>,
    /// One for each of these; one for ever, if this is left out.
    per: Option<Per>,
    /// One for each stretch of this length.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// Days and hours are those of this zone; UTC, if this is left out.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
    /// How long it is remembered; for ever, if this is left out.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
    /// Who takes it; the name of the token, if this is left out.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// It is yours.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SingletonTaken)]
pub(crate) struct Taken {
    /// `won`.
    #[schema(example = "won")]
    outcome: &'static str,
}

/// Take a singleton: once for its name and its period.
#[utoipa::path(post, path = "/v1/singletons/{key}", tag = "singletons",
    params(
        ("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1),
    ),
    request_body = Taking,
    responses(
        (status = 201, description = "It is yours", body = Taken),
        (status = 409, description = "Somebody was first: who, when, and what they left", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn take(
    InPath(name): InPath<String>,
    caller: Caller,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<Taking>,
) -> Result<Response, Problem> {
    let (first, rest) = named::parts(&name)?;
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let mut singleton = rest
        .iter()
        .fold(claims.singleton(first), Singleton::of)
        .per(period(asked.per, asked.every_ms)?)
        .zone(zone(asked.zone.as_deref())?);
    if let Some(ttl) = asked.ttl_ms {
        singleton = singleton.ttl(span::some(ttl, "ttl_ms")?);
    }
    match singleton.take(&asked.details, Commit::new()).await.map_err(refused)? {
        SingletonOutcome::Won(()) => {
            Ok((StatusCode::CREATED, Answer(Taken { outcome: "won" })).into_response())
        }
        SingletonOutcome::Taken(winner) => Err(taken(&winner)),
    }
}

fn taken(winner: &SingletonTaken) -> Problem {
    // What the winner left is theirs to tell, if it can be read at all.
    let details = winner.details::<RawJson>().ok().flatten();
    Problem::conflict("taken", winner.to_string())
        .with("by", &winner.by)
        .with("at", winner.at)
        .with("until", winner.until)
        .with("details", details)
}
