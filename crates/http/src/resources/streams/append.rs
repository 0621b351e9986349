//! Appending to a stream.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tidelock::{
    Appended, Committed, Conflict, EventId, EventType, NewEvent, Position, RawJson, StoreExt,
    StreamName, Version, ViolationReason,
};
use utoipa::ToSchema;

use super::expectation::{Expectation, Expected};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::idempotency::IdempotencyScope;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Names that begin like this are Tidelock's own.
const RESERVED: char = '~';

/// What to append, and to what.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Append {
    /// What to append, in this order.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<Appending>,
    /// What the stream must be like: `"any"` (which it is anyway), `"none"` (there is none),
    /// `"exists"`, or its version.
    expected: Option<Expected>,
}

/// An event to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Appending {
    /// What kind of fact it is.
    #[serde(rename = "type")]
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "placed")]
    event_type: EventType,
    /// The fact.
    #[schema(value_type = Value)]
    data: RawJson,
    /// What is known about the fact; `correlation`, `causation` (an event's id) and `actor` have a
    /// meaning.
    #[schema(value_type = Option<Object>)]
    metadata: Option<RawJson>,
    /// Its id, a UUID: sent again under it, it is appended once. A fresh one, if there is none.
    #[schema(value_type = Option<String>, format = "uuid")]
    id: Option<EventId>,
}

/// Gives each event without an id one that the same request would give it again.
fn name(events: &mut [Appending], once: &IdempotencyScope) {
    for (nth, event) in (0_u64..).zip(events).filter(|(_, event)| event.id.is_none()) {
        event.id = once.id(&nth.to_be_bytes());
    }
}

impl From<Appending> for NewEvent {
    fn from(event: Appending) -> Self {
        let mut new = Self::new(event.event_type, event.data);
        if let Some(metadata) = event.metadata {
            new = new.with_metadata(metadata);
        }
        match event.id {
            Some(id) => new.with_id(id),
            None => new,
        }
    }
}

/// What was appended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Appended)]
pub(crate) struct AppendedDto {
    /// The version of the stream after it.
    #[schema(value_type = u64, minimum = 1)]
    version: Version,
    /// The place in the feed of the last event.
    #[schema(value_type = Option<u64>)]
    position: Option<Position>,
    /// The events, in the order in which they were sent.
    events: Vec<EventAppended>,
    /// They were there already, from an earlier try: this is what it did.
    replayed: bool,
}

/// An event that was appended.
#[derive(Debug, Serialize, ToSchema)]
struct EventAppended {
    #[schema(value_type = String, format = "uuid")]
    id: EventId,
    #[schema(value_type = u64, minimum = 1)]
    version: u64,
}

/// Append events to a stream: all of them or none.
///
/// What the stream must be like is said by `If-Match: "4"` (its version), `If-Match: *` (it
/// exists), `If-None-Match: *` (it does not), or by `expected` in the body. Events whose ids are
/// there already, with the same content, give the first one's result.
#[utoipa::path(post, path = "/v1/streams/{stream}/events", tag = "streams",
    params(
        ("stream" = String, Path, description = "Its name", min_length = 1, max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The version that it must have, in quotes; or *"),
        ("If-None-Match" = Option<String>, Header, description = "Only *: there must be no such stream"),
    ),
    request_body = Append,
    responses(
        (status = 201, description = "They are appended", body = AppendedDto),
        (status = 200, description = "They were there already", body = AppendedDto),
        (status = 409, description = "The stream is not as the body expects it, or is closed, or an id was used before", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "The stream is not as the header expects it", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn append(
    State(served): State<AppState>,
    InPath(stream): InPath<StreamName>,
    once: IdempotencyScope,
    headers: HeaderMap,
    Body(mut asked): Body<Append>,
) -> Result<Response, Problem> {
    check_is_not_reserved(&stream)?;
    name(&mut asked.events, &once);
    let expectation = Expectation::of(&headers, asked.expected)?;
    let events: Vec<NewEvent> = asked.events.into_iter().map(NewEvent::from).collect();
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    match served.store().append(&stream, expectation.expected, events).await?.committed() {
        Ok(committed) => answer(&ids, committed),
        Err(conflict) => Err(refused(&conflict, expectation)),
    }
}

fn check_is_not_reserved(stream: &StreamName) -> Result<(), Problem> {
    if !stream.as_str().starts_with(RESERVED) {
        return Ok(());
    }
    let detail = format!(
        "stream {stream:?}: names that begin with {RESERVED} are Tidelock's own, and can only be read"
    );
    Err(Problem::forbidden("name-reserved", detail))
}

fn answer(ids: &[EventId], committed: Committed) -> Result<Response, Problem> {
    let Some(Appended { version, positions, replayed, .. }) = committed.appends.into_iter().next()
    else {
        return Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "store-failed",
            "the store does not say what it appended",
        ));
    };
    let first = version.get().saturating_sub(ids.len() as u64 - 1);
    let events =
        (first..).zip(ids).map(|(version, id)| EventAppended { id: *id, version }).collect();
    let status = if replayed { StatusCode::OK } else { StatusCode::CREATED };
    let shown =
        AppendedDto { version, position: positions.map(|(_, last)| last), events, replayed };
    Ok((status, [(ETAG, format!("\"{version}\""))], Answer(shown)).into_response())
}

fn refused(conflict: &Conflict, expectation: Expectation) -> Problem {
    let detail = format!("{conflict}: read it again, and decide again");
    match conflict.violations.first().map(|clash| &clash.reason) {
        Some(ViolationReason::Closed { version, .. }) => {
            Problem::conflict("stream-closed", format!("{conflict}: it takes no more events"))
                .with("version", version)
        }
        Some(ViolationReason::Stream { found, .. }) => {
            Problem::new(expectation.unmet(), "version-conflict", detail)
                .with("expected", expectation.expected)
                .with("found", found.version())
        }
        _ => Problem::conflict("conflict", detail),
    }
}
