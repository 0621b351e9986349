//! What becomes of a key when its handler is done: the response is kept, or the key is free again.

use std::sync::Arc;

use bytes::Bytes;
use http::response::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tidelock::StoreErrorKind;
use tidelock::claims::{ClaimError, OnFailure};

use crate::attempt::{Answer, Outcome};
use crate::body::ResponseBody;
use crate::claimed::HeldKey;
use crate::ending::Ending;
use crate::options::Unrecorded;
use crate::problem::Problem;
use crate::recorded::Recorded;
use crate::telemetry;

/// Settles what a handler came to, and says what its client gets.
pub(crate) async fn settle<B: Body<Data = Bytes>, E>(
    right: Arc<HeldKey>,
    handled: Outcome<Result<Response<B>, E>>,
) -> Outcome<Answer<B, E>> {
    match handled {
        Ok(Ok(response)) if right.is_kept() => Ok(Ok(passed("kept", response))),
        Ok(Ok(response)) if right.edge.options.keeps(response.status()) => {
            Ok(Ok(keep(right, response).await))
        }
        Ok(Ok(response)) => {
            release(right).await;
            Ok(Ok(passed("released", response)))
        }
        Ok(Err(error)) => {
            release(right).await;
            Ok(Err(error))
        }
        Err(panic) => {
            fail(right).await;
            Err(panic)
        }
    }
}

fn passed<B>(outcome: &'static str, response: Response<B>) -> Response<ResponseBody<B>> {
    telemetry::answered(outcome);
    response.map(ResponseBody::passed)
}

/// Keeps a response, if it can be.
async fn keep<B: Body<Data = Bytes>>(
    right: Arc<HeldKey>,
    response: Response<B>,
) -> Response<ResponseBody<B>> {
    let (parts, body) = response.into_parts();
    let limit = right.edge.options.response_bytes as u64;
    // A body that does not say how long it is may never end.
    if body.size_hint().upper().is_none_or(|bytes| bytes > limit) {
        return match right.edge.options.unrecorded {
            Unrecorded::PassOnce => streamed(right, parts, body),
            _ => without_content(right, parts, ResponseBody::passed(body)).await,
        };
    }
    let Ok(collected) = body.collect().await else {
        let refusal = right.edge.refuse(Problem::HandlerFailed);
        fail(right).await;
        return refusal;
    };
    let bytes = collected.to_bytes();
    let recorded = Recorded::new(&parts, bytes.clone(), &right.edge.options.left_out);
    match complete(&right, &recorded).await {
        Kept::TooLarge => without_content(right, parts, ResponseBody::whole(bytes)).await,
        kept => answer(&right, kept, Response::from_parts(parts, ResponseBody::whole(bytes))),
    }
}

/// What became of a response that was to be kept.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Yes,
    /// Somebody else has the claim, and their response counts.
    Lost,
    /// No record holds it.
    TooLarge,
    /// The store failed.
    Unknown,
}

async fn complete(right: &HeldKey, recorded: &Recorded) -> Kept {
    match right.won.complete(recorded).await {
        Ok(_) => Kept::Yes,
        Err(ClaimError::Lost { .. }) => Kept::Lost,
        Err(ClaimError::Store(error)) if error.kind() == StoreErrorKind::LimitExceeded => {
            Kept::TooLarge
        }
        Err(error) => {
            tracing::error!(key = right.won.key().as_str(), %error, "a response was not kept");
            Kept::Unknown
        }
    }
}

/// What the client gets. If the store failed that is the response all the same: the work is done,
/// and a client that hears of it does not ask again.
fn answer<B>(
    right: &HeldKey,
    kept: Kept,
    response: Response<ResponseBody<B>>,
) -> Response<ResponseBody<B>> {
    match kept {
        Kept::Lost => right.edge.refuse(Problem::InProgress),
        Kept::Yes => {
            telemetry::answered("kept");
            response
        }
        Kept::TooLarge | Kept::Unknown => {
            telemetry::answered("not-kept");
            response
        }
    }
}

/// For a response that is passed on as it comes, and once: its key is held until then.
fn streamed<B>(right: Arc<HeldKey>, parts: Parts, body: B) -> Response<ResponseBody<B>> {
    tracing::debug!(key = right.won.key().as_str(), status = %parts.status, "a response is a stream");
    let ending = Ending::new(right, parts.status);
    Response::from_parts(parts, ResponseBody::streamed(body, ending))
}

/// Remembers that the work was done, and that its response cannot be given again.
pub(crate) async fn spend(right: Arc<HeldKey>, status: StatusCode) {
    let kept = complete(&right, &Recorded::without_content(status)).await;
    telemetry::answered(if matches!(kept, Kept::Yes) { "kept" } else { "not-kept" });
}

/// For a response that cannot be kept, does as the route says.
async fn without_content<B>(
    right: Arc<HeldKey>,
    parts: Parts,
    body: ResponseBody<B>,
) -> Response<ResponseBody<B>> {
    let (key, status) = (right.won.key().as_str(), parts.status);
    tracing::debug!(key, %status, "a response is a stream, or too large to be kept");
    match right.edge.options.unrecorded {
        Unrecorded::PassOnce => {
            let kept = complete(&right, &Recorded::without_content(status)).await;
            answer(&right, kept, Response::from_parts(parts, body))
        }
        Unrecorded::PassAlways => {
            release(right).await;
            telemetry::answered("released");
            Response::from_parts(parts, body)
        }
        Unrecorded::Refuse => {
            remember(&right, Problem::ResponseRefused).await;
            right.edge.refuse(Problem::ResponseRefused)
        }
    }
}

/// The handler, or its response, did not come to its end.
pub(crate) async fn fail(right: Arc<HeldKey>) {
    match right.edge.options.on_failure {
        OnFailure::Release => release(right).await,
        OnFailure::Remember => remember(&right, Problem::HandlerFailed).await,
    }
}

/// Keeps a problem in place of a response.
async fn remember(right: &HeldKey, problem: Problem) {
    let (parts, body) = problem.response(&right.edge.options).into_parts();
    complete(right, &Recorded::new(&parts, body, &[])).await;
}

/// Gives the key back. If that does not get through, or the handler has left something behind that
/// is still keeping a response, its lease runs out.
async fn release(right: Arc<HeldKey>) {
    let key = right.won.key().clone();
    let Some(right) = Arc::into_inner(right) else { return };
    if let Err(error) = right.won.release().await {
        tracing::warn!(key = key.as_str(), %error, "a key was not given back; its lease runs out");
    }
}
