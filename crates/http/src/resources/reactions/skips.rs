//! Skipping the event that a target is blocked on, and the events that were skipped.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::reactions::{SkipOutcome, SkippedEvent};
use tidelock::store::{EventId, EventType, Position, RecordKey, StreamName, Version};
use tidelock::{Missing, Timestamp};
use utoipa::{IntoParams, ToSchema};

use super::super::bulk_action::no_such;
use super::super::cursor::Cursor;
use super::reactions;
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery};
use crate::paging::Page;

/// Which target goes on without an event, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SkipEventRequest)]
pub(crate) struct SkipRequest {
    /// The reaction.
    #[schema(min_length = 1, max_length = 64, example = "receipts")]
    reaction: String,
    /// The target, which is blocked.
    #[schema(min_length = 1, max_length = 256, example = "order-7")]
    target: String,
    /// Its place, as it was seen: if it has moved, nothing is skipped.
    at: Option<u64>,
    /// Why; kept with the event.
    #[schema(min_length = 1, example = "a test order")]
    reason: String,
}

/// Skip the one event that a target is blocked on: it is never handled, and later events of the
/// target are. The next worker that leases the target skips it, and records it with the reason.
#[utoipa::path(post, path = "/v1/reactions/skip", tag = "reactions", request_body = SkipRequest,
    responses(
        (status = 204, description = "The target is unblocked, and its next worker skips the event"),
        (status = 409, description = "The target is not blocked, or has moved"),
    ))]
pub(crate) async fn skip(
    State(served): State<AppState>,
    Body(asked): Body<SkipRequest>,
) -> Result<StatusCode, Problem> {
    let SkipRequest { reaction, target, at, reason } = asked;
    let reactions = reactions(&served);
    let Some(seen) = reactions.target(&reaction, &target).await? else {
        let missing = reactions.missing_reaction(&reaction).await?;
        return Err(no_such(&missing.unwrap_or(Missing::Target { name: target })));
    };
    let named = format!("target {target:?} of reaction {reaction:?}");
    if at.is_some_and(|at| at != seen.at.get()) {
        return Err(moved(&named));
    }
    match reactions.skip(&seen, &reason).await? {
        SkipOutcome::Requested => Ok(StatusCode::NO_CONTENT),
        SkipOutcome::NotBlocked => {
            let detail = format!("{named} is not blocked, so nothing is to be skipped");
            Err(Problem::conflict("not-blocked", detail))
        }
        _ => Err(moved(&named)),
    }
}

fn moved(named: &str) -> Problem {
    let detail = format!("{named} is not where it was: look again which event it waits for");
    Problem::conflict("target-moved", detail)
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SkippedQuery {
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<RecordKey>>,
    /// The maximum number of events.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// An event that was skipped.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkippedEvent)]
pub(crate) struct SkippedEventDto {
    /// The reaction.
    reaction: String,
    /// The target; a reserved name if the event had no route.
    target: String,
    /// The id of the event.
    #[schema(value_type = String, format = "uuid")]
    event: EventId,
    /// Its stream.
    #[schema(value_type = String)]
    stream: StreamName,
    /// Its version.
    #[schema(value_type = u64)]
    version: Version,
    /// Its position.
    #[schema(value_type = u64)]
    position: Position,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    event_type: EventType,
    /// Why it was skipped.
    reason: String,
    /// The error that blocked the target.
    error: Option<String>,
    /// When it was skipped.
    #[schema(value_type = String, format = DateTime)]
    skipped_at: Timestamp,
}

impl From<SkippedEvent> for SkippedEventDto {
    fn from(skipped: SkippedEvent) -> Self {
        Self {
            reaction: skipped.reaction,
            target: skipped.target,
            event: skipped.event,
            stream: skipped.stream,
            version: skipped.version,
            position: skipped.position,
            event_type: skipped.event_type,
            reason: skipped.reason,
            error: skipped.error,
            skipped_at: skipped.at,
        }
    }
}

/// List the events of a reaction that operators skipped, by position.
#[utoipa::path(get, path = "/v1/reactions/{reaction}/skipped", tag = "reactions",
    params(("reaction" = String, Path, description = "Its name", min_length = 1), SkippedQuery),
    responses((status = 200, body = Page<SkippedEventDto>)))]
pub(crate) async fn skipped(
    State(served): State<AppState>,
    InPath(reaction): InPath<String>,
    InQuery(asked): InQuery<SkippedQuery>,
) -> Result<Answer<Page<SkippedEventDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let after = asked.after.map(|Cursor(place)| place);
    let page = reactions(&served).skipped(Some(&reaction)).after(after).limit(limit).await?;
    let skipped = page.items.into_iter().map(SkippedEventDto::from).collect();
    Ok(Answer(Page::new(skipped, page.next.map(Cursor))))
}
