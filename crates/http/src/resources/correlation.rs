//! A conversation: everything that one request led to, with what led to what, to be drawn as a waterfall.
//!
//! Events are found by reading the feed around a position, so far and no further; the answer says which part was looked at, and where to go
//! on. Beside them are the reactions that have yet to handle one of them, or cannot.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::reactions::{Followed, RouteState};
use tidelock::{
    EventId, FeedQuery, Metadata, Position, Result as StoreResult, StoredEvent, Timestamp, limits,
};
use utoipa::{IntoParams, ToSchema};

use crate::extract::{InPath, InQuery};
use crate::problem::{Details, PROBLEM_JSON, Problem};
use crate::served::Served;

/// Positions before the one that is asked about, from which on is read.
const BEFORE: u64 = 5_000;
/// Pages of the feed that one request reads, at most.
const PAGES: usize = 10;
/// Work items that one request looks up, at most.
const LOOKUPS: usize = 200;

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
    /// What belongs to it, in the order of the feed.
    items: Vec<Part>,
    /// Which part of the feed was looked at.
    looked: Looked,
    /// Ask again with `after` set to this to look further; nothing if the feed ended here.
    next: Option<String>,
}

/// A part of the feed.
#[derive(Debug, Serialize, ToSchema)]
struct Looked {
    /// After this position.
    #[schema(value_type = u64)]
    from: Position,
    /// Up to this one.
    #[schema(value_type = u64)]
    to: Position,
}

/// An event, or a reaction that has yet to handle one.
#[derive(Debug, Serialize, ToSchema)]
struct Part {
    kind: PartKind,
    /// Of an event, its id.
    id: String,
    /// The id of the event that led to it.
    causation: Option<String>,
    /// The type of the event, or the reaction.
    name: String,
    /// The stream, or the target.
    #[serde(rename = "where")]
    place: String,
    /// When the event was appended.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Where the event is in the feed.
    #[schema(value_type = u64)]
    position: Position,
    /// The stream of the event.
    stream: String,
    /// The reaction, if it is one.
    reaction: Option<String>,
    /// What went wrong last.
    error: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Event,
    Reaction,
}

/// Everything that belongs to one conversation, around a position.
#[utoipa::path(get, path = "/v1/correlations/{id}", tag = "streams",
    params(("id" = String, Path, description = "The correlation; of a conversation that an event began, its id"), Where),
    responses(
        (status = 200, body = Conversation),
        (status = 410, description = "The position was never given out by this store", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn show(
    State(served): State<Served>,
    InPath(id): InPath<String>,
    InQuery(asked): InQuery<Where>,
) -> Result<Json<Conversation>, Problem> {
    let start = asked.after.map_or_else(|| begin(asked.around), Ok)?;
    let Found { events, to, at_end } = look(&served, &id, start).await?;
    let waiting = waiting(&served, &events).await?;
    let items = events.iter().map(Part::of_event).chain(waiting).collect();
    Ok(Json(Conversation {
        items,
        looked: Looked { from: start, to },
        next: (!at_end).then(|| to.to_string()),
    }))
}

fn begin(around: Option<Position>) -> StoreResult<Position> {
    Position::new(around.map_or(0, |around| around.get().saturating_sub(BEFORE)))
}

struct Found {
    events: Vec<StoredEvent>,
    to: Position,
    at_end: bool,
}

async fn look(served: &Served, id: &str, start: Position) -> StoreResult<Found> {
    let mut found = Found { events: Vec::new(), to: start, at_end: false };
    for _ in 0..PAGES {
        let page = served.store().read_feed(query(id, found.to)).await?;
        found.events.extend(page.events.into_iter().filter(|event| belongs(event, id)));
        (found.to, found.at_end) = (page.next, page.at_end);
        if found.at_end || found.events.len() >= limits::PAGE_SIZE {
            break;
        }
    }
    Ok(found)
}

/// The event that began a conversation need not say that it belongs to it: where there can be one, everything is looked at here.
fn query(id: &str, after: Position) -> FeedQuery {
    match id.parse::<EventId>() {
        Ok(_) => FeedQuery::after(after),
        Err(_) => FeedQuery::after(after).metadata("correlation", id),
    }
}

fn belongs(event: &StoredEvent, id: &str) -> bool {
    Metadata::of(event).correlation.as_deref() == Some(id) || event.id.to_string() == id
}

/// Reactions whose target is the stream of one of these events, and that are not done with it.
async fn waiting(served: &Served, events: &[StoredEvent]) -> StoreResult<Vec<Part>> {
    // The last event of each stream stands for those before it.
    let streams: BTreeMap<_, _> = events.iter().map(|event| (event.stream.as_str(), event)).collect();
    let routes = match streams.is_empty() {
        true => Vec::new(),
        false => served.tidelock().reactions().routes().await?,
    };
    let mut parts = Vec::new();
    for (reaction, event) in pairs(&routes, &streams) {
        if let Some(followed) = served.tidelock().reactions().target(reaction, event.stream.as_str()).await?
            && (followed.blocked || followed.lag() > 0)
        {
            parts.push(Part::of_reaction(&followed, event));
        }
    }
    Ok(parts)
}

/// Reactions that follow a stream, and the event that stands for it.
fn pairs<'a>(
    routes: &'a [RouteState],
    streams: &BTreeMap<&str, &'a StoredEvent>,
) -> Vec<(&'a str, &'a StoredEvent)> {
    let follow = |route: &RouteState, event: &StoredEvent| event.stream.as_str().starts_with(&route.streams);
    let all = routes.iter().flat_map(|route| streams.values().map(move |event| (route, *event)));
    let meant = all.filter(|(route, event)| follow(route, event)).take(LOOKUPS);
    meant.map(|(route, event)| (route.reaction.as_str(), event)).collect()
}

impl Part {
    fn of_event(event: &StoredEvent) -> Self {
        Self {
            kind: PartKind::Event,
            id: event.id.to_string(),
            causation: Metadata::of(event).causation.map(|cause| cause.to_string()),
            name: event.event_type.to_string(),
            place: event.stream.to_string(),
            at: event.recorded_at,
            position: event.position,
            stream: event.stream.to_string(),
            reaction: None,
            error: None,
        }
    }

    fn of_reaction(followed: &Followed, event: &StoredEvent) -> Self {
        Self {
            kind: PartKind::Reaction,
            id: format!("{}/{}", followed.reaction, followed.target),
            causation: Some(event.id.to_string()),
            name: followed.reaction.clone(),
            place: followed.target.clone(),
            reaction: Some(followed.reaction.clone()),
            error: followed.error.clone(),
            ..Self::of_event(event)
        }
    }
}
