//! Rate limits: so many units in each span of time, replenished continuously.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Outcome;
use tidelock::Timestamp;
use tidelock::claims::{Claims, RateLimit, RateUsage};
use tidelock::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use super::durations::Millis;
use super::named;
use super::quotas::some;
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::OnceClaims;

/// A rate limit, as requests name it.
struct Named<'a> {
    name: &'a str,
    limit: u32,
    every_ms: Millis,
    burst: Option<u32>,
}

impl Named<'_> {
    fn rate(&self, claims: &Claims) -> Result<RateLimit, Problem> {
        let (first, rest) = named::parts(self.name)?;
        let rate = claims.rate(first, self.limit, self.every_ms.span());
        let rate = rest.iter().fold(rate, RateLimit::of);
        Ok(match self.burst {
            Some(burst) => rate.burst(burst),
            None => rate,
        })
    }
}

/// Which rate limit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RateQuery {
    /// Units in each span of time.
    #[param(minimum = 1)]
    limit: u32,
    /// The span of time.
    #[param(value_type = u64, minimum = 1)]
    every_ms: Millis,
    /// The most units at once; the limit by default.
    #[param(minimum = 1)]
    burst: Option<u32>,
}

/// The use of a rate limit.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RateUseDto {
    /// Units that can be taken now.
    available: u32,
    /// The most units that can be taken at once.
    burst: u32,
    /// When all of them will be available again.
    #[schema(value_type = String, format = DateTime)]
    full_at: Timestamp,
}

impl From<RateUsage> for RateUseDto {
    fn from(RateUsage { available, burst, full_at }: RateUsage) -> Self {
        Self { available, burst, full_at }
    }
}

/// Read the use of a rate limit.
#[utoipa::path(get, path = "/v1/rates/{key}", tag = "rates",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1), RateQuery),
    responses((status = 200, body = RateUseDto)))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    InQuery(asked): InQuery<RateQuery>,
) -> Result<Answer<RateUseDto>, Problem> {
    let RateQuery { limit, every_ms, burst } = asked;
    let rate = Named { name: &name, limit, every_ms, burst }.rate(&served.tidelock().claims())?;
    Ok(Answer(rate.usage().await?.into()))
}

/// A request to take from a rate limit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TakeRateRequest)]
pub(crate) struct TakeRequest {
    /// Units in each span of time.
    #[schema(minimum = 1, example = 100)]
    limit: u32,
    /// The span of time.
    #[schema(value_type = u64, minimum = 1, example = 60000)]
    every_ms: Millis,
    /// The most units at once; the limit by default.
    #[schema(minimum = 1)]
    burst: Option<u32>,
    /// How many units to take.
    #[schema(minimum = 1, example = 1)]
    units: u32,
}

impl TakeRequest {
    /// The rate limit, and how many units to take.
    pub(super) fn rate(&self, name: &str, claims: &Claims) -> Result<(RateLimit, u32), Problem> {
        let Self { limit, every_ms, burst, units } = *self;
        Ok((Named { name, limit, every_ms, burst }.rate(claims)?, some(units)?))
    }
}

/// Take from a rate limit, if enough is available.
#[utoipa::path(post, path = "/v1/rates/{key}/take", tag = "rates",
    params(
        ("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1),
    ),
    request_body = TakeRequest,
    responses(
        (status = 201, description = "Granted", body = RateUseDto),
        (status = 429, description = "Not enough is available before `possible_at`"),
    ))]
pub(crate) async fn take(
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<TakeRequest>,
) -> Result<Response, Problem> {
    let (rate, units) = asked.rate(&name, &claims)?;
    match rate.take(units).await? {
        Outcome::Granted(usage) => {
            Ok((StatusCode::CREATED, Answer(RateUseDto::from(usage))).into_response())
        }
        Outcome::Refused(exceeded) => Err(exceeded.into()),
    }
}
