//! Claims: the right to do what a request asks for, once. Won here, gone on with by key and fence, by whoever has them.

mod held;
mod refused;

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::claims::{
    Claim, ClaimError, ClaimInfo, ClaimState, Claims, Fingerprint, Holder, Idempotency, Look, Passed,
};
use tidelock::{Fence, Json, RecordKey, Timestamp, WorkerName};
use utoipa::{IntoParams, ToSchema};

use super::waiting::{unless_closing, unless_gone};
use super::{named, span};
use crate::auth::Caller;
use crate::extract::{Body, InPath, InQuery};
use crate::paging::Page;
use crate::problem::{Details, PROBLEM_JSON, Problem};
use crate::served::Served;

pub(crate) use held::*;
pub(super) use refused::refused;

/// The claims of the store, under the name that was given, or that of whoever asks.
pub(super) fn claims(served: &Served, caller: &Caller, by: Option<&str>) -> Result<Claims, Problem> {
    let by = named::who(by.unwrap_or(caller.shown()))?;
    Ok(served.tidelock().claims().by(by.as_str())?)
}

fn key_of(claims: &Claims, key: &str) -> Idempotency {
    claims.idempotency(key)
}

/// A claim, as it stands; its result is not told in lists.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
pub(crate) struct ClaimShown {
    /// The whole name of the claim.
    #[schema(example = "idempotency/pay:42")]
    key: String,
    /// `idempotency`, `lock`, `singleton` or `quota`.
    #[schema(example = "idempotency")]
    kind: String,
    /// The name, as the routes of its kind take it.
    #[schema(example = "pay:42")]
    name: String,
    /// How it stands; `stale` if whoever was at it let the lease run out.
    #[schema(inline)]
    state: StateShown,
    /// Who is at it, or was.
    #[schema(value_type = String)]
    by: WorkerName,
    /// Grows with every claimant.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// Since when, if it is known.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Until when it is held, or kept.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Why it failed.
    error: Option<String>,
}

/// How a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateShown {
    Pending,
    Stale,
    Done,
    Failed,
}

impl From<ClaimState> for StateShown {
    fn from(state: ClaimState) -> Self {
        match state {
            ClaimState::Pending => Self::Pending,
            ClaimState::Stale => Self::Stale,
            ClaimState::Done => Self::Done,
            ClaimState::Failed => Self::Failed,
        }
    }
}

impl From<ClaimInfo> for ClaimShown {
    fn from(claim: ClaimInfo) -> Self {
        let (kind, name) = claim.key.split_once('/').unwrap_or((claim.key.as_str(), ""));
        // The key of a request is one name, whatever is in it; others have parts.
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

/// Which claims.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// What their whole names begin with: `idempotency/`, `lock/door`.
    #[serde(default)]
    #[param(max_length = 400)]
    prefix: String,
    /// Only those in this state.
    #[param(inline)]
    state: Option<StateShown>,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// How many to look at, at most: fewer may be in the state that is asked for.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List claims of every kind, by name.
#[utoipa::path(get, path = "/v1/claims", tag = "claims", params(Listed), responses((status = 200, body = Page<ClaimShown>)))]
pub(crate) async fn list(
    State(served): State<Served>,
    InQuery(asked): InQuery<Listed>,
) -> Result<Answer<Page<ClaimShown>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let page = served.tidelock().claims().list(&asked.prefix, asked.after, limit).await?;
    let shown = page.claims.into_iter().map(ClaimShown::from);
    let meant = shown.filter(|claim| asked.state.is_none_or(|state| state == claim.state));
    Ok(Answer(Page::new(meant.collect(), page.next)))
}

/// What is claimed, and for how long.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claiming {
    /// What tells this request from others: under one key, only the same is the same. Only a digest of it is kept.
    #[schema(value_type = Option<Value>)]
    fingerprint: Option<Json>,
    /// How long others are kept out if nobody renews it.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// How long the result is kept once it is there; for ever, if this is left out.
    #[schema(minimum = 1, example = 86400000)]
    ttl_ms: Option<u64>,
    /// Who claims it, for those who come too late; the name of the token, if this is left out.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// What came of claiming a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Claimed {
    /// `won`: do it, then complete it. `done`: it was done, and this came of it. `failed`: it was done, and failed.
    #[schema(inline)]
    outcome: Came,
    /// What the work is to be completed with; only if it was won.
    #[schema(value_type = Option<u64>, minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// Until when others are kept out; only if it was won.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// What came of it; only if it was done.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// Why it failed; only if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What came of claiming a key.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Came {
    Won,
    Done,
    Failed,
}

impl Claimed {
    fn came(outcome: Came) -> Self {
        Self { outcome, fence: None, until: None, result: None, error: None }
    }

    fn won(passed: &Passed) -> Response {
        let (fence, until) = (Some(passed.fence), Some(passed.until));
        (StatusCode::CREATED, Answer(Self { fence, until, ..Self::came(Came::Won) })).into_response()
    }

    fn done(result: Json) -> Response {
        Answer(Self { result: Some(result), ..Self::came(Came::Done) }).into_response()
    }

    fn failed(error: String) -> Response {
        Answer(Self { error: Some(error), ..Self::came(Came::Failed) }).into_response()
    }
}

/// Claim a key: whoever is first does the work, everybody else gets its result.
///
/// Nothing is renewed by the server: renew it while you work, and complete it with the fence. If you are gone before you are answered, the key is given
/// back.
#[utoipa::path(post, path = "/v1/claims/{key}", tag = "claims",
    params(
        ("key" = String, Path, description = "The key", min_length = 1, max_length = 400),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again under it, it is done once"),
    ),
    request_body = Claiming,
    responses(
        (status = 201, description = "It is yours: do the work, then complete it", body = Claimed),
        (status = 200, description = "It was done", body = Claimed),
        (status = 409, description = "Somebody is at it: come back, or wait for the result", body = Details, content_type = PROBLEM_JSON),
        (status = 422, description = "The key was used for another request", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn claim(
    State(served): State<Served>,
    InPath(key): InPath<String>,
    caller: Caller,
    Body(asked): Body<Claiming>,
) -> Result<Response, Problem> {
    let mut claim =
        key_of(&claims(&served, &caller, asked.by.as_deref())?, &key).lease(span::lease(asked.lease_ms)?);
    if let Some(request) = &asked.fingerprint {
        claim = claim.fingerprinted(Fingerprint::of(request)?);
    }
    if let Some(ttl) = asked.ttl_ms {
        claim = claim.ttl(span::some(ttl, "ttl_ms")?);
    }
    let claimed = unless_gone(async move { claim.claim::<Json>().await }, give_back).await?;
    match claimed {
        Ok(Claim::Won(won)) => Ok(Claimed::won(&won.pass_on())),
        Ok(Claim::Done(result)) => Ok(Claimed::done(result)),
        Ok(Claim::Held(holder)) => Err(held(&served, &holder).await?),
        Ok(Claim::Mismatch(first)) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", first.to_string())
                .with("outcome", "mismatch")
                .with("by", &first.by))
        }
        Err(ClaimError::Failed { error, .. }) => Ok(Claimed::failed(error)),
        Err(error) => Err(refused(error)),
    }
}

/// The client has gone before the work began.
async fn give_back(claimed: Result<Claim<Json>, ClaimError>) {
    if let Ok(Claim::Won(won)) = claimed
        && let Err(error) = won.release().await
    {
        tracing::warn!(%error, "a claim that nobody has was not given back; its lease runs out");
    }
}

async fn held(served: &Served, holder: &Holder<Json>) -> Result<Problem, Problem> {
    let detail = format!(
        "claim {:?}: {:?} is at it; come back, or wait for the result with GET and wait_ms",
        holder.key(),
        holder.by()
    );
    let problem = Problem::conflict("claim-held", detail)
        .with("outcome", "held")
        .with("by", holder.by())
        .with("since", holder.since())
        .with("until", holder.until());
    until(served, problem, holder.until()).await
}

/// The same problem, with the advice to come back then.
pub(super) async fn until(
    served: &Served,
    problem: Problem,
    until: Option<Timestamp>,
) -> Result<Problem, Problem> {
    let Some(until) = until else { return Ok(problem) };
    let left = until.since(served.store().now().await?);
    Ok(problem.retry_after(left.max(Duration::from_secs(1))))
}

/// How long to wait for a result.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Looking {
    /// Wait so long for somebody who is at it; not at all, if this is left out, and no longer than the server lets anybody wait.
    wait_ms: Option<u64>,
}

/// A key, as it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Seen {
    /// How it stands.
    #[schema(inline)]
    state: StateShown,
    /// Who is at it.
    #[schema(value_type = Option<String>)]
    by: Option<WorkerName>,
    /// Under which fence.
    #[schema(value_type = Option<u64>, minimum = 1)]
    fence: Option<Fence>,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Until when, unless they ask for longer.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// What came of it, once it is done.
    #[schema(value_type = Option<Value>)]
    result: Option<Json>,
    /// Why it failed.
    error: Option<String>,
}

impl Seen {
    fn in_state(state: StateShown) -> Self {
        Self { state, by: None, fence: None, since: None, until: None, result: None, error: None }
    }

    fn pending(holder: &Holder<Json>, fence: Fence) -> Self {
        let (by, since, until) = (Some(holder.by().clone()), holder.since(), holder.until());
        Self { by, fence: Some(fence), since, until, ..Self::in_state(StateShown::Pending) }
    }

    fn done(result: Json) -> Self {
        Self { result: Some(result), ..Self::in_state(StateShown::Done) }
    }

    fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::in_state(StateShown::Failed) }
    }
}

/// Look at a key without claiming it, and wait for its result if somebody is at it.
#[utoipa::path(get, path = "/v1/claims/{key}", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1, max_length = 400), Looking),
    responses(
        (status = 200, description = "Somebody is at it, or this came of it", body = Seen),
        (status = 404, description = "It is free: claim it", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn look(
    State(served): State<Served>,
    InPath(key): InPath<String>,
    InQuery(asked): InQuery<Looking>,
) -> Result<Answer<Seen>, Problem> {
    let claim = key_of(&served.tidelock().claims(), &key);
    let wait = span::wait(&served, asked.wait_ms);
    let (holder, fence) = match claim.look::<Json>().await.map_err(refused)? {
        Look::Held(holder, fence) => (holder, fence),
        Look::Done(result) => return Ok(Answer(Seen::done(result))),
        Look::Failed(error) => return Ok(Answer(Seen::failed(error))),
        Look::Free => return Err(free(&key)),
    };
    if wait.is_zero() {
        return Ok(Answer(Seen::pending(&holder, fence)));
    }
    match unless_closing(&served, holder.wait(wait)).await? {
        Ok(result) => Ok(Answer(Seen::done(result))),
        Err(ClaimError::Failed { error, .. }) => Ok(Answer(Seen::failed(error))),
        Err(ClaimError::StillHeld { .. }) => Ok(Answer(Seen::pending(&holder, fence))),
        Err(ClaimError::Free { .. }) => Err(free(&key)),
        Err(error) => Err(refused(error)),
    }
}

fn free(key: &str) -> Problem {
    let detail = format!("nobody has claimed {key:?}, or whoever did has given up: claim it with POST");
    Problem::not_found("claim-free", detail)
}
