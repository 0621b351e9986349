//! Locks: exclusive leases on a name. Acquired here, renewed and released by name and fence.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Outcome;
use tidelock::Timestamp;
use tidelock::claims::{Claims, Lock, LockHolder};
use tidelock::problem::Problem;
use tidelock::store::{Fence, WorkerName};
use utoipa::{IntoParams, ToSchema};

use super::cancellation::unless_closing;
use super::claims::{ClaimDto, RenewRequest, RenewedDto, asked_by, until};
use super::durations::Millis;
use super::{durations, named};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::OnceClaims;
use crate::paging::{Page, PrefixQuery};

fn lock(claims: &Claims, name: &str) -> Result<Lock, Problem> {
    let (first, rest) = named::parts(name)?;
    Ok(rest.iter().fold(claims.lock(first), Lock::of))
}

/// List locks that are held, or were when their holder died, by name.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(PrefixQuery), responses((status = 200, body = Page<ClaimDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<PrefixQuery>,
) -> Result<Answer<Page<ClaimDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let prefix = format!("lock/{}", asked.prefix);
    let page = served.tidelock().claims().list(prefix).after(asked.after).limit(limit).await?;
    Ok(Answer(Page::new(page.items.into_iter().map(ClaimDto::from).collect(), page.next)))
}

/// A request to acquire a lock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    /// How long the lock is held if it is not renewed.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// How long to wait in the queue while the lock is held; 0 by default, and no longer than the
    /// server's limit.
    #[schema(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
    /// The holder's name, shown to others; the name of the token by default.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// An acquired lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AcquiredLockDto {
    /// Its whole name.
    #[schema(example = "lock/door/7")]
    key: String,
    /// Increases with every holder: renew and release the lock with it, and pass it to the
    /// resources that should reject late writers.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// When the lease expires.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

/// Acquire a lock, or wait in its queue.
///
/// The server renews nothing: renew the lock while you work. If you disconnect before the response,
/// the lock is released.
#[utoipa::path(post, path = "/v1/locks/{key}", tag = "locks",
    params(
        ("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1),
    ),
    request_body = AcquireRequest,
    responses(
        (status = 201, description = "Acquired", body = AcquiredLockDto),
        (status = 409, description = "The lock is held"),
    ))]
pub(crate) async fn acquire(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    caller: Caller,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<AcquireRequest>,
) -> Result<Response, Problem> {
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let lock = lock(&claims, &name)?
        .lease(durations::lease(asked.lease_ms)?)
        .within(durations::wait(&served, asked.wait_ms));
    match unless_closing(&served, lock.acquire()).await?? {
        Outcome::Granted(guard) => {
            let passed = guard.detach();
            let acquired =
                AcquiredLockDto { key: passed.key, fence: passed.fence, until: passed.until };
            Ok((StatusCode::CREATED, Answer(acquired)).into_response())
        }
        Outcome::Refused(busy) => {
            let end = busy.until;
            Err(until(&served, busy.into(), end).await?)
        }
    }
}

/// Renew the lease of a lock.
#[utoipa::path(put, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1)),
    request_body = RenewRequest,
    responses(
        (status = 200, body = RenewedDto),
        (status = 409, description = "The lock was lost, or released"),
    ))]
pub(crate) async fn renew(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<RenewRequest>,
) -> Result<Answer<RenewedDto>, Problem> {
    let lock = lock(&served.tidelock().claims(), &name)?;
    let until = lock.attach(asked.fence).renew(durations::lease(asked.lease_ms)?).await?;
    Ok(Answer(RenewedDto { fence: asked.fence, until }))
}

/// The fence to release.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleaseQuery {
    /// The fence it was acquired with.
    #[param(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
}

/// Release a lock. Repeating it succeeds.
#[utoipa::path(delete, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1), ReleaseQuery),
    responses(
        (status = 204, description = "Released"),
        (status = 409, description = "The lock was lost"),
    ))]
pub(crate) async fn release(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    InQuery(asked): InQuery<ReleaseQuery>,
) -> Result<StatusCode, Problem> {
    lock(&served.tidelock().claims(), &name)?.attach(asked.fence).release().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The holder of a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LockHolder)]
pub(crate) struct LockHolderDto {
    /// The holder's name.
    #[schema(value_type = String)]
    by: WorkerName,
    /// The holder's fence.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// When it was acquired.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// When the lease expires, unless it is renewed.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

impl From<LockHolder> for LockHolderDto {
    fn from(LockHolder { by, fence, since, until }: LockHolder) -> Self {
        Self { by, fence, since, until }
    }
}

/// Read the holder of a lock.
#[utoipa::path(get, path = "/v1/locks/{key}", tag = "locks",
    params(("key" = String, Path, description = "The name: parts separated by slashes", min_length = 1)),
    responses(
        (status = 200, body = LockHolderDto),
        (status = 404, description = "The lock is free"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<LockHolderDto>, Problem> {
    match lock(&served.tidelock().claims(), &name)?.holder().await? {
        Some(holder) => Ok(Answer(holder.into())),
        None => Err(Problem::not_found(
            "lock-free",
            format!("the lock {name:?} is free: acquire it with POST"),
        )),
    }
}
