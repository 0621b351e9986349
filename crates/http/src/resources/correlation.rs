//! Correlations: everything that one request led to, with causes, to be drawn as a waterfall.
//!
//! Events are found by reading a bounded part of the feed around a position; the response says
//! which part was read, and where to continue. Beside the events are the reactions that handled one
//! of them, have yet to, or are blocked; and the runs that were started, from start to end.
//! Reactions and runs are found by bounded lookups of names that the events contain: nothing idle
//! is scanned.

mod part;
mod reactions;
mod runs;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Metadata;
use tidelock::problem::Problem;
use tidelock::store::Result as StoreResult;
use tidelock::store::{EventId, FeedQuery, FeedStart, Position, StoreExt, StoredEvent, limits};
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use part::CorrelationPartDto;

/// Events read before the requested position.
const BEFORE: usize = 5_000;
/// The maximum number of feed pages per request.
const PAGES: usize = 10;

/// Where to search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CorrelationQuery {
    /// Start a little before this position; at the start of the feed by default.
    #[param(value_type = Option<u64>)]
    around: Option<Position>,
    /// The cursor: `next` of the previous response.
    #[param(value_type = Option<u64>)]
    after: Option<Position>,
}

/// A part of a correlation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CorrelationDto {
    /// Its parts: events and runs in the order of the feed, then reactions.
    items: Vec<CorrelationPartDto>,
    /// The part of the feed that was read.
    range: FeedRangeDto,
    /// Pass this as `after` to continue; absent at the end of the feed.
    next: Option<String>,
}

/// A part of the feed.
#[derive(Debug, Serialize, ToSchema)]
struct FeedRangeDto {
    /// The first position.
    #[schema(value_type = u64)]
    from: Position,
    /// The last position.
    #[schema(value_type = u64)]
    to: Position,
}

/// List everything that belongs to a correlation, around a position.
#[utoipa::path(get, path = "/v1/correlations/{id}", tag = "correlations",
    params(("id" = String, Path, description = "The correlation id; for one that an event started, the event's id"), CorrelationQuery),
    responses(
        (status = 200, body = CorrelationDto),
        (status = 410, description = "The position is not one of this store"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(id): InPath<String>,
    InQuery(asked): InQuery<CorrelationQuery>,
) -> Result<Json<CorrelationDto>, Problem> {
    let start = asked.start();
    let from = first(&served, start).await?;
    let Found { events, to, at_end } = look(&served, &id, start).await?;
    let mut items = runs::parts(&served, &events).await?;
    items.extend(reactions::parts(&served, &events).await?);
    Ok(Json(CorrelationDto {
        items,
        range: FeedRangeDto { from, to },
        next: (!at_end).then(|| to.to_string()),
    }))
}

impl CorrelationQuery {
    fn start(&self) -> FeedStart {
        match (self.after, self.around) {
            (Some(after), _) => FeedStart::After(after),
            (None, Some(around)) => FeedStart::Before(around, BEFORE),
            (None, None) => FeedStart::After(Position::START),
        }
    }
}

/// The position to start reading at.
async fn first(served: &AppState, start: FeedStart) -> StoreResult<Position> {
    match start {
        FeedStart::After(position) => Ok(position),
        _ => {
            let page = served.store().read_feed(FeedQuery::from(start).limit(1)).await?;
            Ok(page.events.first().map_or(page.next, |event| event.position))
        }
    }
}

struct Found {
    events: Vec<StoredEvent>,
    to: Position,
    at_end: bool,
}

async fn look(served: &AppState, id: &str, mut start: FeedStart) -> StoreResult<Found> {
    let mut found = Found { events: Vec::new(), to: Position::START, at_end: false };
    for _ in 0..PAGES {
        let page = served.store().full_page(query(id, start)).await?;
        start = FeedStart::After(page.next);
        found.events.extend(page.events.into_iter().filter(|event| belongs(event, id)));
        (found.to, found.at_end) = (page.next, page.at_end);
        if found.at_end || found.events.len() >= limits::PAGE_SIZE {
            break;
        }
    }
    Ok(found)
}

/// The event that started a correlation need not contain its id: where there can be one, every
/// event is read here.
fn query(id: &str, from: FeedStart) -> FeedQuery {
    match id.parse::<EventId>() {
        Ok(_) => FeedQuery::from(from),
        Err(_) => FeedQuery::from(from).metadata("correlation", id),
    }
}

fn belongs(event: &StoredEvent, id: &str) -> bool {
    Metadata::of(event).correlation.as_deref() == Some(id) || event.id.to_string() == id
}
