//! Quota reservations: units taken for a while, then confirmed with the reservation token, or
//! refunded.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Outcome;
use tidelock::Timestamp;
use tidelock::claims::{Grant, RefundOutcome, ReservationToken};
use tidelock::problem::Problem;
use utoipa::ToSchema;

use super::super::durations::{self, Millis};
use super::super::mirror::mirror;
use super::super::period::Per;
use super::{GrantDto, Named, some, too_much};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::idempotency::OnceClaims;

/// A request to reserve units.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveRequest {
    /// The limit.
    #[schema(minimum = 0, example = 100)]
    limit: i64,
    /// How many units to reserve.
    #[schema(minimum = 1, example = 1)]
    units: u32,
    /// How long the reservation lasts unless it is confirmed.
    #[schema(minimum = 1, maximum = 604800000, example = 60000)]
    ttl_ms: u64,
    /// Per calendar period; one period without end by default.
    per: Option<Per>,
    /// Per period of this length.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// The time zone of days and hours; UTC by default.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// A reservation: confirm it, refund it, or let it expire.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReservationDto {
    /// Opaque: send it as it is.
    #[schema(value_type = Object)]
    reservation_token: ReservationToken,
    /// When the reservation expires.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

/// Reserve units of a quota.
#[utoipa::path(post, path = "/v1/quotas/{key}/reserve", tag = "quotas",
    params(
        ("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1),
    ),
    request_body = ReserveRequest,
    responses(
        (status = 201, description = "Reserved", body = ReservationDto),
        (status = 429, description = "Not enough is left"),
    ))]
pub(crate) async fn reserve(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<ReserveRequest>,
) -> Result<Response, Problem> {
    let ReserveRequest { limit, units, ttl_ms, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    match quota.reserve(some(units)?, ttl(ttl_ms)?).await? {
        Outcome::Granted(reservation) => {
            let reserved = ReservationDto {
                until: reservation.until(),
                reservation_token: reservation.token(),
            };
            Ok((StatusCode::CREATED, Answer(reserved)).into_response())
        }
        Outcome::Refused(exceeded) => Err(too_much(&served, exceeded).await?),
    }
}

fn ttl(millis: u64) -> Result<Duration, Problem> {
    durations::lease(millis).map_err(|_| {
        Problem::bad_request(
            "ttl-invalid",
            format!("ttl_ms {millis} is not between 1 and 604800000"),
        )
    })
}

/// A request to confirm a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmRequest {
    /// The reservation token of the reservation.
    #[schema(value_type = Object)]
    reservation_token: ReservationToken,
    /// As in the reservation.
    per: Option<Per>,
    /// As in the reservation.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// As in the reservation.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// Confirm a reservation.
#[utoipa::path(post, path = "/v1/quotas/{key}/confirm", tag = "quotas",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1)),
    request_body = ConfirmRequest,
    responses(
        (status = 200, body = GrantDto),
        (status = 409, description = "The reservation was confirmed or refunded, or has expired"),
    ))]
pub(crate) async fn confirm(
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<ConfirmRequest>,
) -> Result<Answer<GrantDto>, Problem> {
    let ConfirmRequest { reservation_token, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit: 0, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    let grant = quota.attach(&reservation_token)?.confirm().await?;
    Ok(Answer(GrantDto { grant }))
}

/// A request to refund a grant or a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundRequest {
    /// The grant.
    #[schema(value_type = Option<Object>)]
    grant: Option<Grant>,
    /// The reservation token of the reservation.
    #[schema(value_type = Option<Object>)]
    reservation_token: Option<ReservationToken>,
    /// As in the request that took the units.
    per: Option<Per>,
    /// As in the request that took the units.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// As in the request that took the units.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// The result of a refund.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefundResponse {
    /// `refunded`, `already`, or `over`: the period is over, and there is nothing to refund.
    outcome: RefundDto,
}

mirror! {
    /// The result of a refund.
    RefundDto as RefundOutcome of RefundOutcome { Refunded, Already, Over }
}

/// Refund, once, a grant or a reservation.
#[utoipa::path(post, path = "/v1/quotas/{key}/refund", tag = "quotas",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1)),
    request_body = RefundRequest,
    responses((status = 200, body = RefundResponse)))]
pub(crate) async fn refund(
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<RefundRequest>,
) -> Result<Answer<RefundResponse>, Problem> {
    let RefundRequest { grant, reservation_token, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit: 0, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    let refund = match (grant, reservation_token) {
        (Some(grant), None) => quota.refund(&grant).await,
        (None, Some(reservation_token)) => match quota.attach(&reservation_token) {
            Ok(reservation) => reservation.refund().await,
            Err(error) => Err(error),
        },
        _ => {
            let detail = "send either a grant or a reservation_token";
            return Err(Problem::bad_request("refund-ambiguous", detail));
        }
    };
    Ok(Answer(RefundResponse { outcome: refund?.into() }))
}
