//! A conversation: everything that one request led to, with what led to what, to be drawn as a
//! waterfall.
//!
//! Events are found by reading the feed around a position, so far and no further; the answer says
//! which part was looked at, and where to go on. Beside them are the reactions that handled one of
//! them, have yet to, or cannot; and the runs that were started in it, from their beginning to
//! their end. For those only what names one of the events is looked up, and only so much of it:
//! nothing idle is scanned.

mod part;
mod reacting;
mod running;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::store::Result as StoreResult;
use tidelock::{EventId, FeedQuery, FeedStart, Metadata, Position, StoreExt, StoredEvent, limits};
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::problem::{Details, PROBLEM_JSON, Problem};
use part::Part;

/// Events before the position that is asked about, from which on is read.
const BEFORE: usize = 5_000;
/// Pages of the feed that one request reads, at most.
const PAGES: usize = 10;

/// Where to look.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Where {
    /// Begin a little before this position; at the start, if there is none.
    #[param(value_type = Option<u64>)]
    around: Option<Position>,
    /// Where to go on: `next` of the answer before.
    #[param(value_type = Option<u64>)]
    after: Option<Position>,
}

/// Part of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// What belongs to it: events and runs in the order of the feed, then reactions.
    items: Vec<Part>,
    /// Which part of the feed was looked at.
    looked: Looked,
    /// Ask again with `after` set to this to look further; nothing if the feed ended here.
    next: Option<String>,
}

/// A part of the feed.
#[derive(Debug, Serialize, ToSchema)]
struct Looked {
    /// From this position on.
    #[schema(value_type = u64)]
    from: Position,
    /// Up to this one.
    #[schema(value_type = u64)]
    to: Position,
}

/// Everything that belongs to one conversation, around a position.
#[utoipa::path(get, path = "/v1/correlations/{id}", tag = "streams",
    params(("id" = String, Path, description = "The correlation; of a conversation that an event began, its id"), Where),
    responses(
        (status = 200, body = Conversation),
        (status = 410, description = "The position was never given out by this store", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(id): InPath<String>,
    InQuery(asked): InQuery<Where>,
) -> Result<Json<Conversation>, Problem> {
    let start = asked.start();
    let from = first(&served, start).await?;
    let Found { events, to, at_end } = look(&served, &id, start).await?;
    let mut items = running::parts(&served, &events).await?;
    items.extend(reacting::parts(&served, &events).await?);
    Ok(Json(Conversation {
        items,
        looked: Looked { from, to },
        next: (!at_end).then(|| to.to_string()),
    }))
}

impl Where {
    fn start(&self) -> FeedStart {
        match (self.after, self.around) {
            (Some(after), _) => FeedStart::After(after),
            (None, Some(around)) => FeedStart::Before(around, BEFORE),
            (None, None) => FeedStart::After(Position::START),
        }
    }
}

/// The position from which on is looked.
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

/// The event that began a conversation need not say that it belongs to it: where there can be one,
/// everything is looked at here.
fn query(id: &str, from: FeedStart) -> FeedQuery {
    match id.parse::<EventId>() {
        Ok(_) => FeedQuery::from(from),
        Err(_) => FeedQuery::from(from).metadata("correlation", id),
    }
}

fn belongs(event: &StoredEvent, id: &str) -> bool {
    Metadata::of(event).correlation.as_deref() == Some(id) || event.id.to_string() == id
}
