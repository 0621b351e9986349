//! One request with a key, from its body to its response.
//!
//! The body is read first, on the connection's task: nothing is claimed for a client that never
//! sends all of it. From the claim on the work runs on its own task, so that it completes whether
//! or not the client is still connected.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tidelock::TraceContext;
use tidelock::claims::{ClaimError, Fingerprint, Idempotency, IdempotencyClaim};
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument;

use crate::body::ResponseBody;
use crate::config::Config;
use crate::idempotency_key::{HeldKey, IdempotencyKey};
use crate::problem::Problem;
use crate::recorded::Recorded;
use crate::settlement;

/// The client's result: a response, or the service's error.
pub(crate) type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

/// The handler's result, or a panic to propagate.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Answers a request under the claim of this name.
pub(crate) async fn begin<S, A, B>(
    config: Arc<Config>,
    name: String,
    inner: S,
    parts: Parts,
    body: A,
) -> Answer<B, S::Error>
where
    S: Service<Request<A>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    let body = match whole(body, config.options.request_bytes).await {
        Ok(body) => body,
        Err(problem) => return Ok(config.refuse(problem)),
    };
    let fingerprint = (config.options.print)(&parts, &body);
    let claim = config.claim(&name, fingerprint);
    let request = Request::from_parts(parts, A::from(body));
    let work = answer(config.clone(), claim, fingerprint, inner, request);
    let work = TraceContext::carry(work).in_current_span();
    match tokio::spawn(work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        // The runtime is shutting down.
        Err(_) => Ok(config.refuse(Problem::StoreUnavailable)),
    }
}

/// Reads the whole body, up to a limit.
async fn whole<A: Body<Data = Bytes>>(body: A, limit: usize) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Problem::BodyTooLarge);
    }
    let (mut body, mut taken) = (pin!(body), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Problem::BodyUnreadable)?.into_data() else { continue };
        if taken.len() + data.len() > limit {
            return Err(Problem::BodyTooLarge);
        }
        // Usually there is a single frame with the whole body.
        if taken.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        taken.extend_from_slice(&data);
    }
    Ok(taken.freeze())
}

async fn answer<S, A, B>(
    config: Arc<Config>,
    claim: Idempotency,
    fingerprint: Fingerprint,
    inner: S,
    request: Request<A>,
) -> Outcome<Answer<B, S::Error>>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    match claim_or_wait(&config, &claim).await {
        Ok(IdempotencyClaim::Won(won)) => {
            work(HeldKey::new(won, fingerprint, config), inner, request).await
        }
        Ok(IdempotencyClaim::Done(recorded)) => Ok(Ok(config.replay(recorded))),
        Ok(IdempotencyClaim::Held(_)) => Ok(Ok(config.refuse(Problem::InProgress))),
        Ok(IdempotencyClaim::Mismatch(_)) => Ok(Ok(config.refuse(Problem::KeyReused))),
        Err(error) => {
            tracing::error!(key = claim.key().as_str(), %error, "a key could not be claimed");
            Ok(Ok(config.refuse(Problem::StoreUnavailable)))
        }
    }
}

/// Claims the key; if it is claimed, waits as long as the route allows.
async fn claim_or_wait(
    config: &Config,
    claim: &Idempotency,
) -> Result<IdempotencyClaim<Recorded>, ClaimError> {
    let until = Instant::now() + config.options.wait;
    loop {
        let claimed = claim.claim().await?;
        let left = until.saturating_duration_since(Instant::now());
        let IdempotencyClaim::Held(holder) = &claimed else { return Ok(claimed) };
        if left.is_zero() {
            return Ok(claimed);
        }
        match holder.wait(left).await {
            // The key may have been claimed by another request since: look again.
            Ok(_) | Err(ClaimError::Free { .. } | ClaimError::StillHeld { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs the handler under its claim, and settles its result. A handler whose claim is lost is
/// stopped.
async fn work<S, A, B>(
    held: HeldKey,
    mut inner: S,
    mut request: Request<A>,
) -> Outcome<Answer<B, S::Error>>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    let (lost, held) = (held.won.lost().clone(), Arc::new(held));
    request.extensions_mut().insert(IdempotencyKey::under(&held));
    let handled = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
    match lost.run_until_cancelled(handled).await {
        None => {
            tracing::warn!(
                key = held.won.key().as_str(),
                "a handler was stopped: its claim is lost"
            );
            Ok(Ok(held.config.refuse(Problem::InProgress)))
        }
        Some(handled) => settlement::settle(held, handled).await,
    }
}
