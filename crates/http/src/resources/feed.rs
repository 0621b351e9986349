//! The feed: the events of all streams, in the order in which they could first be seen.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::{EventType, FeedQuery, FeedStart, Position, StoreExt};
use utoipa::{IntoParams, ToSchema};

use super::event::EventDto;
use crate::app_state::AppState;
use crate::extract::InQuery;
use crate::limits::PAGE;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Which events of the feed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// Only events after this position; from the start, if there is none.
    #[param(value_type = Option<u64>)]
    after: Option<Position>,
    /// Begin with the last so many events of all instead.
    #[param(minimum = 0, maximum = 1000)]
    last: Option<usize>,
    /// Only events of these types, with commas in between.
    types: Option<String>,
    /// Only events of streams whose name begins with this.
    #[serde(default)]
    #[param(max_length = 256)]
    prefix: String,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of the feed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedDto {
    /// The events. There may be none though more follow, when none of those looked at was asked
    /// for.
    items: Vec<EventDto>,
    /// Ask again with `after` set to this to read on; nothing if the feed ended here.
    next: Option<String>,
    /// Up to where was read. Nothing will ever appear at or before it that is not there now.
    #[schema(value_type = u64)]
    position: Position,
}

/// A page of the feed of all streams.
#[utoipa::path(get, path = "/v1/events", tag = "streams", params(Asked), responses(
    (status = 200, body = FeedDto),
    (status = 410, description = "The position was never given out by this store", body = Details, content_type = PROBLEM_JSON),
))]
pub(crate) async fn page(
    State(served): State<AppState>,
    InQuery(asked): InQuery<Asked>,
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

fn start(asked: &Asked) -> Result<FeedStart, Problem> {
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

/// The types in a list with commas.
pub(crate) fn types(list: Option<&str>) -> Result<Vec<EventType>, Problem> {
    let names = list.unwrap_or_default().split(',').filter(|name| !name.is_empty());
    names.map(|name| EventType::new(name).map_err(Problem::from)).collect()
}
