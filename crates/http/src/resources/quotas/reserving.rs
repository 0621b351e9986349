//! Some of a quota for a while: reserved, confirmed by whoever has the voucher, or given back.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::claims::{Grant, QuotaOutcome, RefundOutcome, ReservationToken};
use utoipa::ToSchema;

use super::super::claims::refused;
use super::super::period::Per;
use super::super::span::{self, Millis};
use super::{Granted, Named, some, too_much};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::idempotency::OnceClaims;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// How much is taken of how much, and for how long unless it is confirmed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveAsked {
    /// How much there is.
    #[schema(minimum = 0, example = 100)]
    limit: i64,
    /// How much of it.
    #[schema(minimum = 1, example = 1)]
    units: u32,
    /// It goes back by itself after this.
    #[schema(minimum = 1, maximum = 604800000, example = 60000)]
    life_ms: u64,
    /// In each of these; once and for all, if this is left out.
    per: Option<Per>,
    /// In each stretch of this length.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// Days and hours are those of this zone; UTC, if this is left out.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// What was reserved: confirm it, or let it go back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reserved {
    /// To be sent as it is.
    #[schema(value_type = Object)]
    voucher: ReservationToken,
    /// When it goes back by itself.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

/// Take from a quota for a while.
#[utoipa::path(post, path = "/v1/quotas/{key}/reserve", tag = "quotas",
    params(
        ("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1),
    ),
    request_body = ReserveAsked,
    responses(
        (status = 201, description = "It is yours for a while", body = Reserved),
        (status = 429, description = "There is not so much left", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn reserve(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<ReserveAsked>,
) -> Result<Response, Problem> {
    let ReserveAsked { limit, units, life_ms, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    match quota.reserve(some(units)?, life(life_ms)?).await.map_err(refused)? {
        QuotaOutcome::Granted(reservation) => {
            let reserved = Reserved { until: reservation.until(), voucher: reservation.voucher() };
            Ok((StatusCode::CREATED, Answer(reserved)).into_response())
        }
        QuotaOutcome::Exceeded(exceeded) => Err(too_much(&served, &exceeded).await?),
    }
}

fn life(millis: u64) -> Result<Duration, Problem> {
    span::lease(millis).map_err(|_| {
        Problem::bad_request(
            "life-invalid",
            format!("life_ms {millis} is not between 1 and 604800000"),
        )
    })
}

/// What is confirmed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirming {
    /// What reserving gave.
    #[schema(value_type = Object)]
    voucher: ReservationToken,
    /// As it was reserved.
    per: Option<Per>,
    /// As it was reserved.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// As it was reserved.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// Take a reservation for good.
#[utoipa::path(post, path = "/v1/quotas/{key}/confirm", tag = "quotas",
    params(("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1)),
    request_body = Confirming,
    responses(
        (status = 200, body = Granted),
        (status = 409, description = "It was confirmed or given back, or has gone back by itself", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn confirm(
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<Confirming>,
) -> Result<Answer<Granted>, Problem> {
    let Confirming { voucher, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit: 0, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    let grant = quota.attach(&voucher).map_err(refused)?.confirm().await.map_err(refused)?;
    Ok(Answer(Granted { grant }))
}

/// What is given back: a grant, or a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refunding {
    /// What taking or confirming gave.
    #[schema(value_type = Option<Object>)]
    grant: Option<Grant>,
    /// What reserving gave.
    #[schema(value_type = Option<Object>)]
    voucher: Option<ReservationToken>,
    /// As it was taken.
    per: Option<Per>,
    /// As it was taken.
    #[schema(value_type = Option<u64>, minimum = 1000)]
    every_ms: Option<Millis>,
    /// As it was taken.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
}

/// What came of giving back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Refunded {
    /// `refunded`, or `already`, or `over`: the period that it was taken from is over, and there is
    /// nothing to give it back to.
    outcome: RefundDto,
}

/// What came of giving back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RefundOutcome)]
pub(crate) enum RefundDto {
    Refunded,
    Already,
    Over,
}

impl From<RefundOutcome> for RefundDto {
    fn from(refund: RefundOutcome) -> Self {
        match refund {
            RefundOutcome::Refunded => Self::Refunded,
            RefundOutcome::Already => Self::Already,
            RefundOutcome::Over => Self::Over,
        }
    }
}

/// Give back, once, what was taken or reserved.
#[utoipa::path(post, path = "/v1/quotas/{key}/refund", tag = "quotas",
    params(("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1)),
    request_body = Refunding,
    responses((status = 200, body = Refunded)))]
pub(crate) async fn refund(
    InPath(name): InPath<String>,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<Refunding>,
) -> Result<Answer<Refunded>, Problem> {
    let Refunding { grant, voucher, per, every_ms, zone } = asked;
    let quota =
        Named { name: &name, limit: 0, per, every_ms, zone: zone.as_deref() }.quota(&claims)?;
    let refund = match (grant, voucher) {
        (Some(grant), None) => quota.refund(&grant).await,
        (None, Some(voucher)) => match quota.attach(&voucher) {
            Ok(reservation) => reservation.refund().await,
            Err(error) => Err(error),
        },
        _ => {
            let detail = "either a grant or a voucher has to be sent, and not both";
            return Err(Problem::bad_request("refund-ambiguous", detail));
        }
    };
    Ok(Answer(Refunded { outcome: refund.map_err(refused)?.into() }))
}
