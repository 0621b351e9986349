//! Going on with a claim that was won: renew, complete, fail, give back. All that is needed is the
//! fence.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::claims::AttachedKey;
use tidelock::{Fence, RawJson, Timestamp};
use utoipa::ToSchema;

use super::super::span;
use super::{key_of, refused};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// For how much longer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renewing {
    /// What it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    pub(in super::super) fence: Fence,
    /// How long others are kept out from now on.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    pub(in super::super) lease_ms: u64,
}

/// Until when it is held now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Renewed {
    /// What it was won with.
    #[schema(value_type = u64, minimum = 1)]
    pub(in super::super) fence: Fence,
    /// Until when others are kept out.
    #[schema(value_type = String, format = DateTime)]
    pub(in super::super) until: Timestamp,
}

/// What came of the work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Completing {
    /// What it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
    /// What everybody who asks is to get.
    #[schema(value_type = Value)]
    result: RawJson,
}

/// Why nothing came of the work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failing {
    /// What it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
    /// What everybody who asks is to be told.
    error: String,
}

/// What is given back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Releasing {
    /// What it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64)]
    fence: Fence,
}

fn work(served: &AppState, key: &str, fence: Fence) -> AttachedKey {
    key_of(&served.tidelock().claims(), key).attach(fence)
}

/// Keep others out for longer.
#[utoipa::path(post, path = "/v1/claims/{key}/renew", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = Renewing,
    responses(
        (status = 200, body = Renewed),
        (status = 409, description = "Somebody else has it, or it has come to its end: drop this work", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn renew(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<Renewing>,
) -> Result<Answer<Renewed>, Problem> {
    let lease = span::lease(asked.lease_ms)?;
    let until = work(&served, &key, asked.fence).renew(lease).await.map_err(refused)?;
    Ok(Answer(Renewed { fence: asked.fence, until }))
}

/// Keep the result: from now on everybody who asks gets it. Sent again with the same result, it is
/// fine.
#[utoipa::path(post, path = "/v1/claims/{key}/complete", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = Completing,
    responses(
        (status = 204, description = "It is done"),
        (status = 409, description = "Somebody else has it, or it has come to another end: what you did must not count", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn complete(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<Completing>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).complete(&asked.result).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Keep the failure: from now on everybody who asks is told of it. To let somebody else try, give
/// the key back instead.
#[utoipa::path(post, path = "/v1/claims/{key}/fail", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = Failing,
    responses(
        (status = 204, description = "It has failed"),
        (status = 409, description = "Somebody else has it, or it has come to another end", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn fail(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<Failing>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).fail(&asked.error).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give the key back: whoever asks next does the work.
#[utoipa::path(post, path = "/v1/claims/{key}/release", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = Releasing,
    responses(
        (status = 204, description = "It is free"),
        (status = 409, description = "Somebody else has it, or it was completed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn release(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<Releasing>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).release().await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}
