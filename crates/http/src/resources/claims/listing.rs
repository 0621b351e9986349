//! Lists of claims of every kind.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::claims::{ClaimInfo, ClaimState};
use tidelock::problem::Problem;
use tidelock::store::{Fence, RecordKey, WorkerName};
use utoipa::{IntoParams, ToSchema};

use super::super::mirror::mirror;
use super::super::named;
use crate::app_state::AppState;
use crate::extract::InQuery;
use crate::paging::Page;

/// A claim's state, without its result.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
pub(crate) struct ClaimDto {
    /// The whole name of the claim.
    #[schema(example = "idempotency/pay:42")]
    key: String,
    /// `idempotency`, `lock`, `singleton` or `quota`.
    #[schema(example = "idempotency")]
    kind: String,
    /// The name, as the routes of its kind accept it.
    #[schema(example = "pay:42")]
    name: String,
    /// Its state; `stale` if its lease has expired.
    state: ClaimStateDto,
    /// Its claimant, current or last.
    #[schema(value_type = String)]
    by: WorkerName,
    /// Increases with every claimant.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// When it was claimed, if known.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// When the lease, or the result, expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Why it failed.
    error: Option<String>,
}

mirror! {
    /// The state of a claim.
    ClaimStateDto as ClaimState of ClaimState { Pending, Stale, Done, Failed }
}

impl From<ClaimInfo> for ClaimDto {
    fn from(claim: ClaimInfo) -> Self {
        let (kind, name) = claim.key.split_once('/').unwrap_or((claim.key.as_str(), ""));
        // The key of a request is a single name; other kinds have parts.
        let name = if kind == "idempotency" { named::unescaped(name) } else { name.to_owned() };
        Self {
            kind: kind.to_owned(),
            name,
            state: claim.state.into(),
            by: claim.by,
            fence: claim.fence,
            since: claim.since,
            until: claim.until,
            error: claim.error,
            key: claim.key,
        }
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// A prefix of their whole names: `idempotency/`, `lock/door`.
    #[serde(default)]
    prefix: String,
    /// Only claims in this state.
    #[param(inline)]
    state: Option<ClaimStateDto>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// How many to read, at most: fewer of them may be in the requested state.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List claims of every kind, by name.
#[utoipa::path(get, path = "/v1/claims", tag = "claims", params(ListQuery), responses((status = 200, body = Page<ClaimDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<ClaimDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let page =
        served.tidelock().claims().list(&asked.prefix).after(asked.after).limit(limit).await?;
    let shown = page.items.into_iter().map(ClaimDto::from);
    let meant = shown.filter(|claim| asked.state.is_none_or(|state| state == claim.state));
    Ok(Answer(Page::new(meant.collect(), page.next)))
}
