//! The audit log: a stream of events that records which operator did what, and with what result.
//!
//! The layer is around every route that changes anything, so no route can omit it; it also lets
//! requests with a writer's token pass through. The request is recorded before it is carried out,
//! and the result before the operator is answered. If the server dies in between, the stream has
//! the request without a result: it may have been carried out. A request that is repeated under its
//! `Idempotency-Key` is recorded once. One that was refused is judged again, and recorded again.

pub(crate) mod keys;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::store::{Appended, EventId, NewEvent, RawJson, StoreExt, StreamQuery, Version};
use tidelock::{ExpectedVersion, Metadata};

use crate::app_state::AppState;
use crate::auth::{Caller, Role};
use crate::extract;
use crate::idempotency::IdempotencyScope;
use crate::limits::AUDITED;

/// A request by an operator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionRequested {
    /// The name of the token.
    pub(crate) who: String,
    /// Method and route.
    pub(crate) what: String,
    /// The path, which names the subject.
    pub(crate) on: String,
    /// The body, if it is JSON.
    pub(crate) parameters: Option<RawJson>,
}

/// The result of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionAnswered {
    /// The event that recorded the request.
    pub(crate) asked: EventId,
    /// The status of the response.
    pub(crate) status: u16,
}

/// How much of a request is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditDetail {
    /// The whole request: it is the operator's decision.
    Whole,
    /// Only the path: the body is data, which belongs in the store and may have to be erased there.
    Path,
}

/// The audit layer's state for one route.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) served: AppState,
    pub(crate) noted: AuditDetail,
}

/// Records what an operator does.
pub(crate) async fn record(State(audit): State<Audit>, request: Request, next: Next) -> Response {
    if request.extensions().get::<Caller>().is_none_or(|caller| caller.role < Role::Operator) {
        return next.run(request).await;
    }
    match audit.recorded(request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

impl Audit {
    async fn recorded(&self, request: Request, next: Next) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        match self.noted {
            AuditDetail::Path => done(&self.served, parts, None, body, next).await,
            AuditDetail::Whole => {
                let bytes = extract::whole(body, &self.served).await?;
                done(&self.served, parts, parameters(&bytes), Body::from(bytes), next).await
            }
        }
    }
}

async fn done(
    served: &AppState,
    parts: Parts,
    parameters: Option<RawJson>,
    body: Body,
    next: Next,
) -> Result<Response, Problem> {
    let once = IdempotencyScope::of(&parts);
    let asked = ask(served, &asked(&parts, parameters), &once, &parts).await?;
    let response = next.run(Request::from_parts(copy(&parts), body)).await;
    let answered = ActionAnswered { asked, status: response.status().as_u16() };
    // The operation is done and cannot be undone, and the stream has the request: the operator gets
    // the response.
    let id = once.id(format!("{} {asked} {}", keys::ANSWERED, answered.status).as_bytes());
    if let Err(problem) = append(served, keys::ANSWERED, &answered, id, &parts).await {
        tracing::warn!(%asked, status = answered.status, "the result of an operator's request could not be recorded: {}", problem.status());
    }
    Ok(response)
}

/// Records a request: once per idempotency key, unless the previous one was refused and is judged
/// again.
async fn ask(
    served: &AppState,
    asked: &ActionRequested,
    once: &IdempotencyScope,
    parts: &Parts,
) -> Result<EventId, Problem> {
    for nth in 0..REFUSALS {
        let id = once.id(format!("{} {nth}", keys::ASKED).as_bytes());
        let RecordedEvent { id, version, replayed } =
            append(served, keys::ASKED, asked, id, parts).await?;
        if !replayed || !was_refused(served, id, version).await? {
            return Ok(id);
        }
    }
    Ok(append(served, keys::ASKED, asked, None, parts).await?.id)
}

/// The number of refusals under one key that are told apart; further attempts are recorded each
/// time.
const REFUSALS: u32 = 8;

/// Whether the request at this version was answered with a refusal, which no idempotency key keeps.
async fn was_refused(served: &AppState, asked: EventId, at: Version) -> Result<bool, Problem> {
    let later = StreamQuery::forward(&keys::stream()).from(at.plus(1)).limit(LATER);
    let answers = served.store().full_page(later).await?.events;
    let answers = answers.iter().filter(|event| event.event_type.as_str() == keys::ANSWERED);
    let mut answers = answers.filter_map(|event| event.payload.to::<ActionAnswered>().ok());
    Ok(answers.any(|answer| answer.asked == asked && answer.status >= 400))
}

/// How many newer events are searched for the result of an older request: about as many as
/// concurrent operators produce.
pub(crate) const LATER: usize = 200;

fn asked(parts: &Parts, parameters: Option<RawJson>) -> ActionRequested {
    let route =
        parts.extensions.get::<MatchedPath>().map_or_else(|| parts.uri.path(), MatchedPath::as_str);
    ActionRequested {
        who: who(parts),
        what: format!("{} {route}", parts.method),
        on: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        parameters,
    }
}

/// The body, if it is JSON and small enough to keep.
fn parameters(body: &Bytes) -> Option<RawJson> {
    let text = std::str::from_utf8(body).ok().filter(|text| (1..=AUDITED).contains(&text.len()))?;
    RawJson::parse(text).ok()
}

fn who(parts: &Parts) -> String {
    parts.extensions.get::<Caller>().unwrap_or(&Caller::ANONYMOUS).shown().to_owned()
}

/// Copies the head of a request.
fn copy(parts: &Parts) -> Parts {
    let mut copy = Request::new(()).into_parts().0;
    copy.method = parts.method.clone();
    copy.uri = parts.uri.clone();
    copy.version = parts.version;
    copy.headers = parts.headers.clone();
    copy.extensions = parts.extensions.clone();
    copy
}

/// A recorded event, and whether it had been recorded before.
struct RecordedEvent {
    id: EventId,
    version: Version,
    replayed: bool,
}

async fn append(
    served: &AppState,
    event: &str,
    said: &impl Serialize,
    id: Option<EventId>,
    parts: &Parts,
) -> Result<RecordedEvent, Problem> {
    let event = NewEvent::of(event, said)?.with_metadata(Metadata::new().by(who(parts)).to_json()?);
    let id = id.unwrap_or(event.id);
    let outcome = served
        .store()
        .append(&keys::stream(), ExpectedVersion::Any, vec![event.with_id(id)])
        .await?;
    match outcome.committed().map(|committed| committed.appends.into_iter().next()) {
        Ok(Some(Appended { version, replayed, .. })) => Ok(RecordedEvent { id, version, replayed }),
        Ok(None) => Err(Problem::internal("store-failed", "the store returned no appended event")),
        Err(conflict) => Err(Problem::internal(
            "audit-refused",
            format!("the audit log cannot be written: {conflict}"),
        )),
    }
}
