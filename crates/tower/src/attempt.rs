//! One request with a key, from its first byte to its answer.
//!
//! The body is read first, on the task of the connection: nothing is claimed for a client that
//! never sends all of it. From the claim on the work is on a task of its own, so that it comes to
//! its end whether or not the client is still there.

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
use tidelock::claims::{ClaimError, Fingerprint, Idempotency, IdempotencyClaim};
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument;

use crate::body::ResponseBody;
use crate::claimed::{HeldKey, IdempotencyKey};
use crate::edge::Config;
use crate::problem::Problem;
use crate::recorded::Recorded;
use crate::settling;

/// What a client gets: a response, or what the service fails with.
pub(crate) type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

/// What a handler came to: an answer, or a panic that is passed on.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Answers a request under the claim of this name.
pub(crate) async fn begin<S, A, B>(
    edge: Arc<Config>,
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
    let body = match whole(body, edge.options.request_bytes).await {
        Ok(body) => body,
        Err(problem) => return Ok(edge.refuse(problem)),
    };
    let fingerprint = (edge.options.print)(&parts, &body);
    let claim = edge.claim(&name, fingerprint);
    let request = Request::from_parts(parts, A::from(body));
    let work = answer(edge.clone(), claim, fingerprint, inner, request).in_current_span();
    match tokio::spawn(work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        // The runtime is being shut down.
        Err(_) => Ok(edge.refuse(Problem::StoreUnavailable)),
    }
}

/// All of a body, if it is not too large.
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
        // Mostly there is one piece, and it is the whole.
        if taken.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        taken.extend_from_slice(&data);
    }
    Ok(taken.freeze())
}

async fn answer<S, A, B>(
    edge: Arc<Config>,
    claim: Idempotency,
    fingerprint: Fingerprint,
    inner: S,
    request: Request<A>,
) -> Outcome<Answer<B, S::Error>>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    match claim_or_wait(&edge, &claim).await {
        Ok(IdempotencyClaim::Won(won)) => {
            work(HeldKey::new(won, fingerprint, edge), inner, request).await
        }
        Ok(IdempotencyClaim::Done(recorded)) => Ok(Ok(edge.replay(recorded))),
        Ok(IdempotencyClaim::Held(_)) => Ok(Ok(edge.refuse(Problem::InProgress))),
        Ok(IdempotencyClaim::Mismatch(_)) => Ok(Ok(edge.refuse(Problem::KeyReused))),
        Err(error) => {
            tracing::error!(key = claim.key().as_str(), %error, "a key could not be claimed");
            Ok(Ok(edge.refuse(Problem::StoreUnavailable)))
        }
    }
}

/// Claims the key; if somebody is at it, waits for as long as the route asks for.
async fn claim_or_wait(
    edge: &Config,
    claim: &Idempotency,
) -> Result<IdempotencyClaim<Recorded>, ClaimError> {
    let until = Instant::now() + edge.options.wait;
    loop {
        let claimed = claim.claim().await?;
        let left = until.saturating_duration_since(Instant::now());
        let IdempotencyClaim::Held(holder) = &claimed else { return Ok(claimed) };
        if left.is_zero() {
            return Ok(claimed);
        }
        match holder.wait(left).await {
            // Somebody else may have had the key since, for another request: what is there now is
            // for another look.
            Ok(_) | Err(ClaimError::Free { .. } | ClaimError::StillHeld { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs the handler under its claim, and settles what comes of it. A handler whose claim is lost is
/// stopped.
async fn work<S, A, B>(
    right: HeldKey,
    mut inner: S,
    mut request: Request<A>,
) -> Outcome<Answer<B, S::Error>>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    let (lost, right) = (right.won.lost().clone(), Arc::new(right));
    request.extensions_mut().insert(IdempotencyKey::under(&right));
    let handled = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
    match lost.run_until_cancelled(handled).await {
        None => {
            tracing::warn!(
                key = right.won.key().as_str(),
                "a handler was stopped: somebody else has its key"
            );
            Ok(Ok(right.edge.refuse(Problem::InProgress)))
        }
        Some(handled) => settling::settle(right, handled).await,
    }
}
