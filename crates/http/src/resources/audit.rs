//! The audit log, newest first.

use std::collections::HashMap;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::store::{EventId, RawJson, StoreExt, StoredEvent, StreamQuery};
use utoipa::{IntoParams, ToSchema};

use super::cursor::VersionCursor;
use crate::app_state::AppState;
use crate::audit::{ActionAnswered, ActionRequested, LATER, keys};
use crate::extract::InQuery;
use crate::paging::Page;

/// An operator's action.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditEntryDto {
    /// When it was requested, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The name of the token.
    #[schema(example = "alice")]
    who: String,
    /// Method and route.
    #[schema(example = "POST /v1/reactions/unblock")]
    what: String,
    /// The path, which names the subject.
    on: String,
    /// The body of the request.
    #[schema(value_type = Option<Value>)]
    parameters: Option<RawJson>,
    /// The status of the response; absent if it is unknown whether the action was carried out.
    #[schema(example = 200)]
    status: Option<u16>,
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<u64>, minimum = 0)]
    after: Option<VersionCursor>,
    /// How many audit events to read, at most: each action has two.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List operators' actions, newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(ListQuery), responses((status = 200, body = Page<AuditEntryDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<AuditEntryDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let from = match asked.after.map(|after| after.first(true)) {
        Some(None) => return Ok(Answer(Page::new(Vec::new(), None::<VersionCursor>))),
        from => from.flatten(),
    };
    let query = StreamQuery { from, ..StreamQuery::backward(&keys::stream()) };
    let page = served.store().full_page(query.limit(limit)).await?;
    let mut statuses = statuses_after(&served, &page.events).await?;
    let items = page.events.iter().filter_map(|event| shown(event, &mut statuses)).collect();
    Ok(Answer(Page::new(items, page.next.map(|next| VersionCursor::before(next, true)))))
}

/// Finds the statuses of responses that were recorded on the previous page, or a little after.
async fn statuses_after(
    served: &AppState,
    events: &[StoredEvent],
) -> Result<HashMap<EventId, u16>, Problem> {
    let mut statuses = HashMap::new();
    if let Some(newest) = events.first() {
        let later = StreamQuery::forward(&keys::stream()).from(newest.version.plus(1)).limit(LATER);
        for event in served.store().full_page(later).await?.events {
            note_answer(&event, &mut statuses);
        }
    }
    Ok(statuses)
}

fn note_answer(event: &StoredEvent, statuses: &mut HashMap<EventId, u16>) {
    if event.event_type.as_str() == keys::ANSWERED
        && let Ok(answered) = event.payload.to::<ActionAnswered>()
    {
        statuses.insert(answered.asked, answered.status);
    }
}

fn shown(event: &StoredEvent, statuses: &mut HashMap<EventId, u16>) -> Option<AuditEntryDto> {
    note_answer(event, statuses);
    if event.event_type.as_str() != keys::ASKED {
        return None;
    }
    let ActionRequested { who, what, on, parameters } = event.payload.to().ok()?;
    Some(AuditEntryDto {
        at: event.recorded_at,
        who,
        what,
        on,
        parameters,
        status: statuses.remove(&event.id),
    })
}
