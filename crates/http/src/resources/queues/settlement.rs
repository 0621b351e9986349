//! Settles leased items: ack, retry, defer, block or release.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::When;
use tidelock::problem::Problem;
use tidelock::queues::{Queue, SettleOutcome};
use tidelock::store::{Fence, Mark, Settle, Settlement};
use utoipa::ToSchema;

use super::super::durations::Millis;
use super::queue;
use crate::app_state::AppState;
use crate::extract::{Body, InPath};

/// How an item is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WorkOutcome)]
pub(crate) enum SettlementDto {
    /// The work succeeded.
    Ack,
    /// The work failed, and is retried after a backoff.
    Retry,
    /// The work did not fail, but is to be tried again later.
    Defer,
    /// The work failed, and is not retried until an operator unblocks the item.
    Block,
    /// The item is returned unchanged.
    Release,
}

/// How one item is settled.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleItem {
    /// Its key.
    #[schema(min_length = 1, max_length = 256)]
    pub(in super::super) key: String,
    /// The fence it was leased with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
    /// The outcome.
    outcome: SettlementDto,
    /// Not leased before this long from now: the backoff of a retry, or the delay of work left
    /// after an ack.
    #[schema(value_type = Option<u64>)]
    after_ms: Option<Millis>,
    /// The error, for a retry or a block.
    error: Option<String>,
    /// Done up to this mark, if the item was enqueued with one.
    #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
    done: Option<Mark>,
}

/// A request to settle items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleItemsRequest {
    /// The items.
    #[schema(max_items = 1000)]
    items: Vec<SettleItem>,
}

/// The result of settling, for each item in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledItemsDto {
    items: Vec<SettledItemDto>,
}

/// The result of settling one lease.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledItemDto {
    /// Its key.
    key: String,
    /// The fence it was leased with.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// `settled`, or `lost`: another worker holds the item, and nothing was changed.
    outcome: SettleResultDto,
}

/// The result of settling a lease.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettledOutcome)]
pub(crate) enum SettleResultDto {
    Settled,
    Lost,
}

impl SettleItem {
    pub(in super::super) fn settlement(&self, queue: &Queue) -> Result<Settlement, Problem> {
        self.check()?;
        let lease = queue.token(&self.key, self.fence)?;
        let after = self.after_ms.map(Millis::span);
        let error = || self.error.clone().unwrap_or_default();
        let exit = match self.outcome {
            SettlementDto::Ack => Settle::Ack { defer: after.map(When::In), forget: None },
            SettlementDto::Retry => {
                Settle::Retry { after: after.unwrap_or_default(), error: error() }
            }
            SettlementDto::Defer => Settle::Defer { until: When::In(after.unwrap_or_default()) },
            SettlementDto::Block => Settle::Block { error: error() },
            SettlementDto::Release => Settle::Release,
        };
        Ok(Settlement { lease, done: self.done, exit })
    }

    /// Refuses fields that have no effect with the outcome: they were meant to have one.
    fn check(&self) -> Result<(), Problem> {
        let Self { key, outcome, .. } = self;
        if self.error.is_some() && !matches!(outcome, SettlementDto::Retry | SettlementDto::Block) {
            let detail = format!("item {key:?}: only a retry or a block has an error");
            return Err(Problem::bad_request("settlement-invalid", detail));
        }
        if self.after_ms.is_some()
            && matches!(outcome, SettlementDto::Block | SettlementDto::Release)
        {
            let detail =
                format!("item {key:?}: after_ms has no effect on a blocked or released item");
            return Err(Problem::bad_request("settlement-invalid", detail));
        }
        Ok(())
    }
}

/// Settle items independently: one lost lease does not affect the others.
#[utoipa::path(post, path = "/v1/queues/{queue}/settle", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = SettleItemsRequest,
    responses((status = 200, body = SettledItemsDto)))]
pub(crate) async fn settle(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<SettleItemsRequest>,
) -> Result<Answer<SettledItemsDto>, Problem> {
    let queue = queue(&served, &name)?;
    let settlements = asked.items.iter().map(|item| item.settlement(&queue));
    let settled = queue.settle(settlements.collect::<Result<_, Problem>>()?).await?;
    let items = asked.items.into_iter().zip(settled).map(|(item, settled)| SettledItemDto {
        key: item.key,
        fence: item.fence,
        outcome: match settled {
            SettleOutcome::Settled => SettleResultDto::Settled,
            SettleOutcome::Lost(_) => SettleResultDto::Lost,
        },
    });
    Ok(Answer(SettledItemsDto { items: items.collect() }))
}
