//! The feed: the events of all streams, in the order in which they became visible.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::store::{EventType, FeedQuery, FeedStart, Position, StoreExt};
use utoipa::{IntoParams, ToSchema};

use super::event::EventDto;
use crate::app_state::AppState;
use crate::extract::InQuery;
use crate::limits::PAGE;

/// The query of a feed page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedParams {
    /// Only events after this position; from the start by default.
    #[param(value_type = Option<u64>)]
    after: Option<Position>,
    /// Start with the last so many events of the feed instead.
    #[param(minimum = 0, maximum = 1000)]
    last: Option<usize>,
    /// Only events of these types, separated by commas.
    types: Option<String>,
    /// Only events of streams with this name prefix.
    #[serde(default)]
    #[param(max_length = 256)]
    prefix: String,
    /// The maximum number of events.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of the feed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedDto {
    /// The events. May be empty although more follow, if none of those read matches.
    items: Vec<EventDto>,
    /// Pass this as `after` to read on; absent at the end of the feed.
    next: Option<String>,
    /// The position read up to. No event will ever appear at or before it that is not there now.
    #[schema(value_type = u64)]
    position: Position,
}

/// Read a page of the feed.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(FeedParams), responses(
    (status = 200, body = FeedDto),
    (status = 410, description = "The position is not one of this store"),
))]
pub(crate) async fn page(
    State(served): State<AppState>,
    InQuery(asked): InQuery<FeedParams>,
) -> Result<Json<FeedDto>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let query = FeedQuery::from(start(&asked)?).limit(limit).stream_prefix(asked.prefix);
    let page = served.store().full_page(query.types(types(asked.types.as_deref())?)).await?;
    let next = (!page.at_end).then(|| page.next.to_string());
    Ok(Json(FeedDto {
        items: page.events.into_iter().map(EventDto::from).collect(),
        next,
        position: page.next,
    }))
}

fn start(asked: &FeedParams) -> Result<FeedStart, Problem> {
    match (asked.after, asked.last) {
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "query-invalid",
            "either `after` or `last` can be given, and not both",
        )),
        (_, Some(events)) if events > PAGE => {
            let detail = format!("the last {events} events were asked for; the limit is {PAGE}");
            Err(Problem::bad_request("limit-invalid", detail))
        }
        (_, Some(events)) => Ok(FeedStart::Last(events)),
        (after, None) => Ok(FeedStart::After(after.unwrap_or(Position::START))),
    }
}

/// Parses a comma-separated list of event types.
pub(crate) fn types(list: Option<&str>) -> Result<Vec<EventType>, Problem> {
    let names = list.unwrap_or_default().split(',').filter(|name| !name.is_empty());
    names.map(|name| EventType::new(name).map_err(Problem::from)).collect()
}
