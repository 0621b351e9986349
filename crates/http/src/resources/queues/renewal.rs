//! Renews the leases of items.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::store::{Fence, LeaseToken, Renewal, StoreError};
use utoipa::ToSchema;

use super::super::durations;
use super::queue;
use crate::app_state::AppState;
use crate::extract::{Body, InPath};

/// A leased item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldItemDto {
    /// Its key.
    #[schema(min_length = 1, max_length = 256)]
    key: String,
    /// The fence it was leased with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
}

/// A request to renew leases.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewItemsRequest {
    /// The items.
    #[schema(max_items = 1000)]
    items: Vec<HeldItemDto>,
    /// How long the leases last from now on.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
}

/// The outcome of renewing, for each item in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenewedItemsDto {
    items: Vec<RenewedItemDto>,
}

/// The outcome of renewing one lease.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenewedItemDto {
    /// Its key.
    key: String,
    /// The fence it was leased with.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// `renewed`, or `lost`: drop this work.
    outcome: RenewalDto,
    /// When the lease expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The outcome of renewing a lease.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RenewalOutcome)]
pub(crate) enum RenewalDto {
    Renewed,
    Lost,
}

impl RenewedItemDto {
    fn of(item: HeldItemDto, renewal: &Renewal) -> Self {
        let (outcome, until) = match renewal {
            Renewal::Renewed(until) => (RenewalDto::Renewed, Some(*until)),
            Renewal::Lost(_) => (RenewalDto::Lost, None),
        };
        Self { key: item.key, fence: item.fence, outcome, until }
    }
}

/// Renew the leases of items.
#[utoipa::path(post, path = "/v1/queues/{queue}/renew", tag = "queues",
    params(("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128)),
    request_body = RenewItemsRequest,
    responses((status = 200, body = RenewedItemsDto)))]
pub(crate) async fn renew(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<RenewItemsRequest>,
) -> Result<Answer<RenewedItemsDto>, Problem> {
    let (queue, lease) = (queue(&served, &name)?, durations::lease(asked.lease_ms)?);
    let tokens = asked.items.iter().map(|item| queue.token(&item.key, item.fence));
    let tokens = tokens.collect::<Result<Vec<LeaseToken>, StoreError>>()?;
    let renewed = queue.renew(&tokens, lease).await?;
    let items = asked
        .items
        .into_iter()
        .zip(&renewed)
        .map(|(item, renewal)| RenewedItemDto::of(item, renewal));
    Ok(Answer(RenewedItemsDto { items: items.collect() }))
}
