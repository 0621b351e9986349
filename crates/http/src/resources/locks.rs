//! Locks: the right to be the only one at something, for a while. Taken here, renewed and given
//! back by name and fence.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::claims::{Claims, Lock, LockBusy, LockHolder, LockOutcome, WaitPolicy};
use tidelock::{Fence, RecordKey, Timestamp, WorkerName};
use utoipa::{IntoParams, ToSchema};

use super::claims::{ClaimDto, Renewed, Renewing, asked_by, refused, until};
use super::span::Millis;
use super::waiting::unless_closing;
use super::{named, span};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::OnceClaims;
use crate::paging::Page;
use crate::problem::{Details, PROBLEM_JSON, Problem};

fn lock(claims: &Claims, name: &str) -> Result<Lock, Problem> {
    let (first, rest) = named::parts(name)?;
    Ok(rest.iter().fold(claims.lock(first), Lock::of))
}

/// Which locks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// What their names begin with.
    #[serde(default)]
    prefix: String,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List locks that somebody has, or had when they died, by name.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(Listed), responses((status = 200, body = Page<ClaimDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<Listed>,
) -> Result<Answer<Page<ClaimDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let prefix = format!("lock/{}", asked.prefix);
    let page = served.tidelock().claims().list(&prefix, asked.after, limit).await?;
    Ok(Answer(Page::new(page.claims.into_iter().map(ClaimDto::from).collect(), page.next)))
}

/// For how long, and how long to wait for it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acquiring {
    /// How long others are kept out if nobody renews it.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// Stand in line for so long while somebody has it; not at all, if this is left out, and no
    /// longer than the server lets anybody wait.
    #[schema(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
    /// Who asks, for those who come too late; the name of the token, if this is left out.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// A lock that is yours.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Acquired {
    /// Its whole name.
    #[schema(example = "lock/door/7")]
    key: String,
    /// Grows with every holder: renew it and give it back with this, and pass it on to whatever
    /// should refuse those who come late.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// Until when others are kept out.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

/// Take a lock, or stand in line for it.
///
/// Nothing is renewed by the server: renew it while you work. If you are gone before you are
/// answered, the lock is given back.
#[utoipa::path(post, path = "/v1/locks/{key}", tag = "locks",
    params(
        ("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1),
    ),
    request_body = Acquiring,
    responses(
        (status = 201, description = "It is yours", body = Acquired),
        (status = 409, description = "Somebody has it", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn acquire(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    caller: Caller,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<Acquiring>,
) -> Result<Response, Problem> {
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let lock = lock(&claims, &name)?
        .lease(span::lease(asked.lease_ms)?)
        .patience(WaitPolicy::of(span::wait(&served, asked.wait_ms)));
    match unless_closing(&served, lock.acquire()).await?.map_err(refused)? {
        LockOutcome::Locked(guard) => {
            let passed = guard.detach();
            let acquired = Acquired { key: passed.key, fence: passed.fence, until: passed.until };
            Ok((StatusCode::CREATED, Answer(acquired)).into_response())
        }
        LockOutcome::Busy(busy) => Err(in_use(&served, &busy).await?),
    }
}

async fn in_use(served: &AppState, busy: &LockBusy) -> Result<Problem, Problem> {
    let problem = Problem::conflict("lock-held", busy.to_string())
        .with("by", &busy.by)
        .with("since", busy.since)
        .with("until", busy.until);
    until(served, problem, busy.until).await
}

/// Keep others out for longer.
#[utoipa::path(put, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1)),
    request_body = Renewing,
    responses(
        (status = 200, body = Renewed),
        (status = 409, description = "Somebody else has it, or it was given back", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn renew(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<Renewing>,
) -> Result<Answer<Renewed>, Problem> {
    let lock = lock(&served.tidelock().claims(), &name)?;
    let until =
        lock.attach(asked.fence).renew(span::lease(asked.lease_ms)?).await.map_err(refused)?;
    Ok(Answer(Renewed { fence: asked.fence, until }))
}

/// Under which fence.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Releasing {
    /// What it was taken with.
    #[param(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
}

/// Give a lock back. Sent again, it is fine.
#[utoipa::path(delete, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1), Releasing),
    responses(
        (status = 204, description = "It is free"),
        (status = 409, description = "Somebody else has it", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn release(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    InQuery(asked): InQuery<Releasing>,
) -> Result<StatusCode, Problem> {
    lock(&served.tidelock().claims(), &name)?
        .attach(asked.fence)
        .release()
        .await
        .map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who has a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LockHolder)]
pub(crate) struct LockHolderDto {
    /// Who.
    #[schema(value_type = String)]
    by: WorkerName,
    /// The fence that they hold it under.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Until when, unless they ask for longer.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

impl From<LockHolder> for LockHolderDto {
    fn from(LockHolder { by, fence, since, until }: LockHolder) -> Self {
        Self { by, fence, since, until }
    }
}

/// Who has a lock.
#[utoipa::path(get, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "Its name; parts with slashes in between", min_length = 1)),
    responses(
        (status = 200, body = LockHolderDto),
        (status = 404, description = "Nobody has it", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<LockHolderDto>, Problem> {
    match lock(&served.tidelock().claims(), &name)?.holder().await.map_err(refused)? {
        Some(holder) => Ok(Answer(holder.into())),
        None => Err(Problem::not_found(
            "lock-free",
            format!("nobody has the lock {name:?}: take it with POST"),
        )),
    }
}
