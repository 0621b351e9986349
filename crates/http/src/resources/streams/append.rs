//! Appends to a stream.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use tidelock::problem::Problem;
use tidelock::store::{
    Appended, Committed, Conflict, EventId, EventType, NewEvent, Position, RawJson, StoreExt,
    StreamName, Version, ViolationReason,
};
use tidelock::{Metadata, TraceContext};
use utoipa::ToSchema;

use super::expectation::{Expectation, Expected};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::idempotency::IdempotencyScope;

/// The prefix of reserved names.
const RESERVED: char = '~';

/// A request to append events.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendRequest {
    /// The events, in this order.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<NewEventDto>,
    /// The expected version: `"any"` (the default), `"none"` (the stream does not exist),
    /// `"exists"`, or a version.
    expected: Option<Expected>,
}

/// An event to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct NewEventDto {
    /// Its type.
    #[serde(rename = "type")]
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "placed")]
    event_type: EventType,
    /// The payload.
    #[schema(value_type = Value)]
    data: RawJson,
    /// The metadata; `correlation`, `causation` (an event's id), `actor` and `traceparent` have a
    /// meaning. Without a `traceparent`, that of the request's header is stored.
    #[serde(default, deserialize_with = "object")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<RawJson>,
    /// Its id, a UUID: sent again under it, it is appended once. Random by default.
    #[schema(value_type = Option<String>, format = "uuid")]
    id: Option<EventId>,
}

/// Reads an object as it is.
fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RawJson>, D::Error> {
    let json = Option::<RawJson>::deserialize(from)?;
    let is_object = |json: &RawJson| json.as_str().trim_ascii_start().starts_with('{');
    match json {
        Some(json) if !is_object(&json) => {
            Err(D::Error::invalid_type(Unexpected::Other("another value"), &"an object"))
        }
        json => Ok(json),
    }
}

/// Gives each event without an id one that is equal in every retry of the request.
fn name(events: &mut [NewEventDto], once: &IdempotencyScope) {
    for (nth, event) in (0_u64..).zip(events).filter(|(_, event)| event.id.is_none()) {
        event.id = once.id(&nth.to_be_bytes());
    }
}

impl NewEventDto {
    pub(in super::super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// The event, under an id that it keeps when the request is judged again.
    pub(in super::super) fn named(mut self) -> NewEvent {
        self.id.get_or_insert_with(EventId::fresh);
        self.into()
    }
}

impl From<NewEventDto> for NewEvent {
    fn from(event: NewEventDto) -> Self {
        let mut new = Self::new(event.event_type, event.data);
        if let Some(metadata) = event.metadata {
            new = new.with_metadata(metadata);
        }
        // Without a trace the metadata is stored as it was written.
        if TraceContext::current().is_some()
            && let Ok(metadata) = Metadata::from_json(&new.metadata).traced().to_json()
        {
            new = new.with_metadata(metadata);
        }
        match event.id {
            Some(id) => new.with_id(id),
            None => new,
        }
    }
}

/// The result of an append.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Appended)]
pub(crate) struct AppendedDto {
    /// The version of the stream afterwards.
    #[schema(value_type = u64, minimum = 1)]
    version: Version,
    /// The feed position of the last event.
    #[schema(value_type = Option<u64>)]
    position: Option<Position>,
    /// The events, in the order of the request.
    events: Vec<AppendedEventDto>,
    /// Whether the events had already been appended by an earlier attempt, whose result this is.
    replayed: bool,
}

/// An appended event.
#[derive(Debug, Serialize, ToSchema)]
pub(in super::super) struct AppendedEventDto {
    #[schema(value_type = String, format = "uuid")]
    pub(in super::super) id: EventId,
    #[schema(value_type = u64, minimum = 1)]
    pub(in super::super) version: u64,
}

/// Append events to a stream: all of them or none.
///
/// The expected version is given by `If-Match: "4"` (a version), `If-Match: *` (the stream exists),
/// `If-None-Match: *` (it does not), or by `expected` in the body. Events whose ids exist already,
/// with the same content, give the result of the first append.
#[utoipa::path(post, path = "/v1/streams/{stream}/events", tag = "streams",
    params(
        ("stream" = String, Path, description = "Its name", min_length = 1, max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The expected version, in quotes; or *"),
        ("If-None-Match" = Option<String>, Header, description = "Only *: the stream must not exist"),
    ),
    request_body = AppendRequest,
    responses(
        (status = 201, description = "Appended", body = AppendedDto),
        (status = 200, description = "The events had already been appended", body = AppendedDto),
        (status = 409, description = "The stream is not at the version expected by the body, or is closed, or an id is already used"),
        (status = 412, description = "The stream is not at the version expected by the header"),
    ))]
pub(crate) async fn append(
    State(served): State<AppState>,
    InPath(stream): InPath<StreamName>,
    once: IdempotencyScope,
    headers: HeaderMap,
    Body(mut asked): Body<AppendRequest>,
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

pub(in super::super) fn check_is_not_reserved(stream: &StreamName) -> Result<(), Problem> {
    if !stream.as_str().starts_with(RESERVED) {
        return Ok(());
    }
    let detail = format!(
        "stream {stream:?}: names that begin with {RESERVED} are reserved, and can only be read"
    );
    Err(Problem::forbidden("name-reserved", detail))
}

fn answer(ids: &[EventId], committed: Committed) -> Result<Response, Problem> {
    let Some(Appended { version, positions, replayed, .. }) = committed.appends.into_iter().next()
    else {
        return Err(Problem::internal("store-failed", "the store returned no appended event"));
    };
    let first = version.get().saturating_sub(ids.len() as u64 - 1);
    let events =
        (first..).zip(ids).map(|(version, id)| AppendedEventDto { id: *id, version }).collect();
    let status = if replayed { StatusCode::OK } else { StatusCode::CREATED };
    let shown =
        AppendedDto { version, position: positions.map(|(_, last)| last), events, replayed };
    Ok((status, [(ETAG, format!("\"{version}\""))], Answer(shown)).into_response())
}

fn refused(conflict: &Conflict, expectation: Expectation) -> Problem {
    let detail = format!("{conflict}: read it again, and decide again");
    match conflict.violations.first().map(|clash| &clash.reason) {
        Some(ViolationReason::Closed { version, .. }) => {
            Problem::conflict("stream-closed", format!("{conflict}: it accepts no more events"))
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
