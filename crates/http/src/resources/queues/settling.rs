//! How the work on items ended: well, to be tried again, not to be tried again, or not at all.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::queues::{Queue, SettleOutcome};
use tidelock::{Fence, Mark, Settle, Settlement, When};
use utoipa::ToSchema;

use super::super::span::Millis;
use super::queue;
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::problem::Problem;

/// How work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WorkOutcome)]
pub(crate) enum Outcome {
    /// It went well.
    Ack,
    /// It failed, and is to be tried again after a while.
    Retry,
    /// It did not fail, but is to be tried again later.
    Defer,
    /// It failed, and is not to be tried until somebody unblocks it.
    Block,
    /// It is given back as it was.
    Release,
}

/// How the work on one item ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settling {
    /// Its key.
    #[schema(min_length = 1, max_length = 256)]
    key: String,
    /// What it was leased with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
    /// How it ended.
    outcome: Outcome,
    /// Not to be leased before so long from now: the backoff of a retry, and what is left after an
    /// ack.
    #[schema(value_type = Option<u64>)]
    after_ms: Option<Millis>,
    /// What went wrong, of a retry or a block.
    error: Option<String>,
    /// Done up to this mark, if the item was put in with one.
    #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
    done: Option<Mark>,
}

/// How the work on items ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettlingItems {
    /// For each item.
    #[schema(max_items = 1000)]
    items: Vec<Settling>,
}

/// What came of it, for each in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledItems {
    items: Vec<SettledItem>,
}

/// What came of settling one lease.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledItem {
    /// Its key.
    key: String,
    /// What it was leased with.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// `settled`, or `lost`: somebody else has it, and nothing was changed.
    outcome: SettledDto,
}

/// What came of settling.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettledOutcome)]
pub(crate) enum SettledDto {
    Settled,
    Lost,
}

impl Settling {
    fn settlement(&self, queue: &Queue) -> Result<Settlement, Problem> {
        self.check()?;
        let lease = queue.token(&self.key, self.fence)?;
        let after = self.after_ms.map(Millis::span);
        let error = || self.error.clone().unwrap_or_default();
        let exit = match self.outcome {
            Outcome::Ack => Settle::Ack { defer: after.map(When::In), forget: None },
            Outcome::Retry => Settle::Retry { after: after.unwrap_or_default(), error: error() },
            Outcome::Defer => Settle::Defer { until: When::In(after.unwrap_or_default()) },
            Outcome::Block => Settle::Block { error: error() },
            Outcome::Release => Settle::Release,
        };
        Ok(Settlement { lease, done: self.done, exit })
    }

    /// What says nothing is refused: it was meant to say something.
    fn check(&self) -> Result<(), Problem> {
        let Self { key, outcome, .. } = self;
        if self.error.is_some() && !matches!(outcome, Outcome::Retry | Outcome::Block) {
            let detail = format!("item {key:?}: only a retry or a block has an error");
            return Err(Problem::bad_request("settlement-invalid", detail));
        }
        if self.after_ms.is_some() && matches!(outcome, Outcome::Block | Outcome::Release) {
            let detail = format!(
                "item {key:?}: what is blocked or released does not come back after a while"
            );
            return Err(Problem::bad_request("settlement-invalid", detail));
        }
        Ok(())
    }
}

/// Say how the work on items ended, each for itself: one that is lost is in nobody's way.
#[utoipa::path(post, path = "/v1/queues/{queue}/settle", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = SettlingItems,
    responses((status = 200, body = SettledItems)))]
pub(crate) async fn settle(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<SettlingItems>,
) -> Result<Answer<SettledItems>, Problem> {
    let queue = queue(&served, &name)?;
    let settlements = asked.items.iter().map(|item| item.settlement(&queue));
    let settled = queue.settle(settlements.collect::<Result<_, Problem>>()?).await?;
    let items = asked.items.into_iter().zip(settled).map(|(item, settled)| SettledItem {
        key: item.key,
        fence: item.fence,
        outcome: match settled {
            SettleOutcome::Settled => SettledDto::Settled,
            SettleOutcome::Lost(_) => SettledDto::Lost,
        },
    });
    Ok(Answer(SettledItems { items: items.collect() }))
}
