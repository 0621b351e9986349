//! Quotas: a limit per period. Drawn at once, or reserved and confirmed later with the reservation
//! token.

mod reservation;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Outcome;
use tidelock::Timestamp;
use tidelock::claims::{Claims, Grant, Quota, QuotaExceeded, QuotaInfo};
use tidelock::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use super::claims::until;
use super::durations::Millis;
use super::named;
use super::period::{Per, period, zone};
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::OnceClaims;
use crate::paging::{Page, PrefixQuery};

pub(crate) use reservation::*;

/// A quota, as requests name it.
struct Named<'a> {
    name: &'a str,
    limit: i64,
    per: Option<Per>,
    every_ms: Option<Millis>,
    zone: Option<&'a str>,
}

impl Named<'_> {
    fn quota(&self, claims: &Claims) -> Result<Quota, Problem> {
        if self.limit < 0 {
            let detail = format!("limit {}: it must not be negative", self.limit);
            return Err(Problem::bad_request("limit-invalid", detail));
        }
        let (first, rest) = named::parts(self.name)?;
        let quota = claims.quota(first, self.limit);
        let quota = rest.iter().fold(quota, Quota::of);
        Ok(quota.per(period(self.per, self.every_ms)?).zone(zone(self.zone)?))
    }
}

/// A quota in use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quota)]
pub(crate) struct QuotaDto {
    /// Its whole name.
    #[schema(example = "quota/seats/boat-3/per day in Europe%2FBerlin")]
    key: String,
    /// Units in use, including reservations.
    used: i64,
    /// When the period ends, if ever.
    #[schema(value_type = Option<String>, format = DateTime)]
    resets_at: Option<Timestamp>,
}

impl From<QuotaInfo> for QuotaDto {
    fn from(QuotaInfo { key, used, resets_at }: QuotaInfo) -> Self {
        Self { key, used, resets_at }
    }
}

/// List quotas in use in the current period, by name. Their limits are not stored: each request
/// gives its own.
#[utoipa::path(get, path = "/v1/quotas", tag = "quotas", params(PrefixQuery), responses((status = 200, body = Page<QuotaDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<PrefixQuery>,
) -> Result<Answer<Page<QuotaDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let prefix = format!("quota/{}", asked.prefix);
    let page = served.tidelock().claims().quotas(prefix).after(asked.after).limit(limit).await?;
    Ok(Answer(Page::new(page.items.into_iter().map(QuotaDto::from).collect(), page.next)))
}

/// Which quota.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QuotaQuery {
    /// The limit.
    #[param(minimum = 0)]
    limit: i64,
    /// Per calendar period; one period without end by default.
    #[param(inline)]
    per: Option<Per>,
    /// Per period of this length.
    #[param(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// The time zone of days and hours; UTC by default.
    #[param(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// The use of a quota.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuotaUseDto {
    /// Units in use, including reservations.
    used: i64,
    /// The limit.
    limit: i64,
    /// Units left.
    left: i64,
    /// When the period ends; absent if it never does, or if nothing was taken yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    resets_at: Option<Timestamp>,
}

/// Read the use of a quota.
#[utoipa::path(get, path = "/v1/quotas/{key}", tag = "quotas",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1), QuotaQuery),
    responses((status = 200, body = QuotaUseDto)))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    InQuery(asked): InQuery<QuotaQuery>,
) -> Result<Answer<QuotaUseDto>, Problem> {
    let QuotaQuery { limit, per, every_ms, zone } = asked;
    let quota = Named { name: &name, limit, per, every_ms, zone: zone.as_deref() }
        .quota(&served.tidelock().claims())?;
    let usage = quota.usage().await?;
    let left = limit.saturating_sub(usage.used).max(0);
    Ok(Answer(QuotaUseDto { used: usage.used, limit, left, resets_at: usage.resets_at }))
}

/// A request to take from a quota.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TakeRequest {
    /// The limit.
    #[schema(minimum = 0, example = 100)]
    limit: i64,
    /// How many units to take.
    #[schema(minimum = 1, example = 1)]
    units: u32,
    /// Per calendar period; one period without end by default.
    per: Option<Per>,
    /// Per period of this length.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// The time zone of days and hours; UTC by default.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

impl TakeRequest {
    /// The quota, and how many units to take.
    pub(super) fn quota(&self, name: &str, claims: &Claims) -> Result<(Quota, u32), Problem> {
        let Self { limit, units, per, every_ms, ref zone } = *self;
        let quota = Named { name, limit, per, every_ms, zone: zone.as_deref() }.quota(claims)?;
        Ok((quota, some(units)?))
    }
}

/// A grant: keep it if it may have to be refunded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantDto {
    /// Opaque: send it as it is.
    #[schema(value_type = Object)]
    pub(super) grant: Grant,
}

/// Take from a quota, if enough is left.
#[utoipa::path(post, path = "/v1/quotas/{key}/take", tag = "quotas",
    params(
        ("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1),
    ),
    request_body = TakeRequest,
    responses(
        (status = 201, description = "Granted", body = GrantDto),
        (status = 429, description = "Not enough is left"),
    ))]
pub(crate) async fn take(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<TakeRequest>,
) -> Result<Response, Problem> {
    let (quota, units) = asked.quota(&name, &claims)?;
    match quota.take(units).await? {
        Outcome::Granted(grant) => {
            Ok((StatusCode::CREATED, Answer(GrantDto { grant })).into_response())
        }
        Outcome::Refused(exceeded) => Err(too_much(&served, exceeded).await?),
    }
}

pub(super) fn some(units: u32) -> Result<u32, Problem> {
    match units {
        0 => Err(Problem::bad_request("units-invalid", "units 0: use 1 or more")),
        units => Ok(units),
    }
}

async fn too_much(served: &AppState, exceeded: QuotaExceeded) -> Result<Problem, Problem> {
    let resets_at = exceeded.resets_at;
    until(served, exceeded.into(), resets_at).await
}
