//! Settles a key when its handler returns: the response is recorded, or the key is released.

use std::sync::Arc;

use bytes::Bytes;
use http::response::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tidelock::claims::{ClaimError, OnFailure};
use tidelock::store::StoreErrorKind;

use crate::attempt::{Answer, Outcome};
use crate::body::ResponseBody;
use crate::idempotency_key::HeldKey;
use crate::options::Unrecorded;
use crate::problem::Problem;
use crate::recorded::Recorded;
use crate::stream_end::StreamEnd;
use crate::telemetry;

/// Settles the handler's result, and returns the client's response.
pub(crate) async fn settle<B: Body<Data = Bytes>, E>(
    held: Arc<HeldKey>,
    handled: Outcome<Result<Response<B>, E>>,
) -> Outcome<Answer<B, E>> {
    match handled {
        Ok(Ok(response)) if held.is_kept() => Ok(Ok(passed("kept", response))),
        Ok(Ok(response)) if held.config.options.keeps(response.status()) => {
            Ok(Ok(keep(held, response).await))
        }
        Ok(Ok(response)) => {
            release(held).await;
            Ok(Ok(passed("released", response)))
        }
        Ok(Err(error)) => {
            release(held).await;
            Ok(Err(error))
        }
        Err(panic) => {
            fail(held).await;
            Err(panic)
        }
    }
}

fn passed<B>(outcome: &'static str, response: Response<B>) -> Response<ResponseBody<B>> {
    telemetry::answered(outcome);
    response.map(ResponseBody::passed)
}

/// Records a response, if it can be.
async fn keep<B: Body<Data = Bytes>>(
    held: Arc<HeldKey>,
    response: Response<B>,
) -> Response<ResponseBody<B>> {
    let (parts, body) = response.into_parts();
    let limit = held.config.options.response_bytes as u64;
    // A body without a known length may never end.
    if body.size_hint().upper().is_none_or(|bytes| bytes > limit) {
        return match held.config.options.unrecorded {
            Unrecorded::PassOnce => streamed(held, parts, body),
            _ => without_content(held, parts, ResponseBody::passed(body)).await,
        };
    }
    let Ok(collected) = body.collect().await else {
        let refusal = held.config.refuse(Problem::HandlerFailed);
        fail(held).await;
        return refusal;
    };
    let bytes = collected.to_bytes();
    let recorded = Recorded::new(&parts, bytes.clone(), &held.config.options.left_out);
    match complete(&held, &recorded).await {
        RecordOutcome::TooLarge => without_content(held, parts, ResponseBody::whole(bytes)).await,
        kept => answer(&held, kept, Response::from_parts(parts, ResponseBody::whole(bytes))),
    }
}

/// The outcome of recording a response.
#[derive(Debug, Clone, Copy)]
enum RecordOutcome {
    Yes,
    /// The claim is lost, and the other holder's response counts.
    Lost,
    /// Too large for a record.
    TooLarge,
    /// The store failed.
    Unknown,
}

async fn complete(held: &HeldKey, recorded: &Recorded) -> RecordOutcome {
    match held.won.complete(recorded).await {
        Ok(_) => RecordOutcome::Yes,
        Err(ClaimError::Lost { .. }) => RecordOutcome::Lost,
        Err(ClaimError::Store(error)) if error.kind() == StoreErrorKind::LimitExceeded => {
            RecordOutcome::TooLarge
        }
        Err(error) => {
            tracing::error!(key = held.won.key().as_str(), %error, "a response was not recorded");
            RecordOutcome::Unknown
        }
    }
}

/// The client's response. If the store failed it is returned all the same: the work is done, and an
/// answered client does not retry.
fn answer<B>(
    held: &HeldKey,
    kept: RecordOutcome,
    response: Response<ResponseBody<B>>,
) -> Response<ResponseBody<B>> {
    match kept {
        RecordOutcome::Lost => held.config.refuse(Problem::InProgress),
        RecordOutcome::Yes => {
            telemetry::answered("kept");
            response
        }
        RecordOutcome::TooLarge | RecordOutcome::Unknown => {
            telemetry::answered("not-kept");
            response
        }
    }
}

/// Streams a response once: its key is held until the end.
fn streamed<B>(held: Arc<HeldKey>, parts: Parts, body: B) -> Response<ResponseBody<B>> {
    tracing::debug!(key = held.won.key().as_str(), status = %parts.status, "a response is a stream");
    let ending = StreamEnd::new(held, parts.status);
    Response::from_parts(parts, ResponseBody::streamed(body, ending))
}

/// Records that the work was done, and that its response cannot be replayed.
pub(crate) async fn spend(held: Arc<HeldKey>, status: StatusCode) {
    let kept = complete(&held, &Recorded::without_content(status)).await;
    telemetry::answered(if matches!(kept, RecordOutcome::Yes) { "kept" } else { "not-kept" });
}

/// Applies the route's option to a response that cannot be recorded.
async fn without_content<B>(
    held: Arc<HeldKey>,
    parts: Parts,
    body: ResponseBody<B>,
) -> Response<ResponseBody<B>> {
    let (key, status) = (held.won.key().as_str(), parts.status);
    tracing::debug!(key, %status, "a response is a stream, or too large to be recorded");
    match held.config.options.unrecorded {
        Unrecorded::PassOnce => {
            let kept = complete(&held, &Recorded::without_content(status)).await;
            answer(&held, kept, Response::from_parts(parts, body))
        }
        Unrecorded::PassAlways => {
            release(held).await;
            telemetry::answered("released");
            Response::from_parts(parts, body)
        }
        Unrecorded::Refuse => {
            remember(&held, Problem::ResponseRefused).await;
            held.config.refuse(Problem::ResponseRefused)
        }
    }
}

/// The handler, or its response, failed.
pub(crate) async fn fail(held: Arc<HeldKey>) {
    match held.config.options.on_failure {
        OnFailure::Release => release(held).await,
        OnFailure::Remember => remember(&held, Problem::HandlerFailed).await,
    }
}

/// Records a problem in place of a response.
async fn remember(held: &HeldKey, problem: Problem) {
    let (parts, body) = problem.response(&held.config.options).into_parts();
    complete(held, &Recorded::new(&parts, body, &[])).await;
}

/// Releases the key. If that fails, or the handler has left a task behind that is still recording a
/// response, its lease expires.
async fn release(held: Arc<HeldKey>) {
    let key = held.won.key().clone();
    let Some(held) = Arc::into_inner(held) else { return };
    if let Err(error) = held.won.release().await {
        tracing::warn!(key = key.as_str(), %error, "a key was not released; its lease expires");
    }
}
