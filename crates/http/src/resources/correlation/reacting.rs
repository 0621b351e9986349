//! The reactions of a conversation: those that appended something to it, and those whose targets
//! its streams are.
//!
//! What a handler appended says which reaction it was, and what it handled. Of a reaction that
//! appended nothing, the work item of its target says whether it is done: a few lookups by name.
//! Which types of events a reaction wants is not in the store, so one that is done with an event
//! may have passed it over.

use std::collections::BTreeMap;

use tidelock::reactions::{RouteState, TargetInfo, is_reserved};
use tidelock::store::Result as StoreResult;
use tidelock::{EventId, Metadata, StoredEvent};

use super::part::{Part, Standing, reaction_id};
use crate::app_state::AppState;

/// Work items that one request looks up, at most.
const LOOKUPS: usize = 200;

pub(super) async fn parts(served: &AppState, events: &[StoredEvent]) -> StoreResult<Vec<Part>> {
    let mut parts = appending(events);
    // The last event of each stream stands for those before it. Reactions follow none of Tidelock's
    // own.
    let streams = events.iter().filter(|event| !is_reserved(event.stream.as_str()));
    let streams: BTreeMap<_, _> = streams.map(|event| (event.stream.as_str(), event)).collect();
    if !streams.is_empty() {
        let routes = served.tidelock().reactions().routes().await?;
        for (route, event) in pairs(&routes, &streams) {
            let followed = served
                .tidelock()
                .reactions()
                .target(&route.reaction, event.stream.as_str())
                .await?;
            if let Some(stands) = standing(route, followed, event) {
                add(&mut parts, route, event, stands);
            }
        }
    }
    Ok(parts.into_values().collect())
}

/// What is not done is said whatever was appended before: it may be handled again.
fn add(
    parts: &mut BTreeMap<String, Part>,
    route: &RouteState,
    event: &StoredEvent,
    stands: Standing,
) {
    let id = reaction_id(&route.reaction, &event.id.to_string());
    if stands.state != DONE || !parts.contains_key(&id) {
        parts.insert(id, Part::of_reaction(&route.reaction, event.stream.as_str(), event, stands));
    }
}

const DONE: &str = "done";

/// The reactions that appended one of these events when they handled another one; by their ids.
fn appending(events: &[StoredEvent]) -> BTreeMap<String, Part> {
    let known: BTreeMap<EventId, &StoredEvent> =
        events.iter().map(|event| (event.id, event)).collect();
    let mut parts = BTreeMap::new();
    for appended in events {
        let Metadata { causation, reaction, .. } = Metadata::of(appended);
        let (Some(reaction), Some(handled)) =
            (reaction, causation.and_then(|cause| known.get(&cause)))
        else {
            continue;
        };
        let stands = Standing { state: DONE, until: Some(appended.recorded_at), error: None };
        let part = Part::of_reaction(&reaction, handled.stream.as_str(), handled, stands);
        parts.insert(part.id.clone(), part);
    }
    parts
}

/// Reactions that follow a stream, and the event that stands for it.
fn pairs<'a>(
    routes: &'a [RouteState],
    streams: &BTreeMap<&str, &'a StoredEvent>,
) -> Vec<(&'a RouteState, &'a StoredEvent)> {
    let all = routes.iter().flat_map(|route| streams.values().map(move |event| (route, *event)));
    all.filter(|(route, event)| follows(route, event)).take(LOOKUPS).collect()
}

/// Whether an event is one of those that a reaction follows.
fn follows(route: &RouteState, event: &StoredEvent) -> bool {
    event.stream.as_str().starts_with(&route.streams) && event.position > route.start
}

/// How the reaction is with the event; nothing, if it has not come to it through this target.
fn standing(
    route: &RouteState,
    followed: Option<TargetInfo>,
    event: &StoredEvent,
) -> Option<Standing> {
    match followed {
        Some(target) if target.at.get() >= event.version.get() => {
            Some(Standing { state: DONE, ..Standing::default() })
        }
        Some(target) if target.blocked => {
            Some(Standing { state: "blocked", until: None, error: target.error })
        }
        Some(target) => Some(Standing { state: "waiting", until: None, error: target.error }),
        // It is not routed yet.
        None if event.position > route.position => {
            Some(Standing { state: "waiting", ..Standing::default() })
        }
        None => None,
    }
}
