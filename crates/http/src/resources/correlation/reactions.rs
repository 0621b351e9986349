//! The reactions of a correlation: those that appended one of its events, and those that follow its
//! streams.
//!
//! An event that a handler appended names the reaction and the handled event. For a reaction that
//! appended nothing, the work item of its target says whether it is done: a few lookups by name.
//! The event types that a reaction subscribes to are not in the store, so one that is done with an
//! event may have skipped it.

use std::collections::BTreeMap;

use tidelock::Metadata;
use tidelock::reactions::{RouteState, TargetInfo, is_reserved};
use tidelock::store::Result as StoreResult;
use tidelock::store::{EventId, StoredEvent};

use super::part::{CorrelationPartDto, Progress, reaction_id};
use crate::app_state::AppState;

/// The maximum number of work items looked up per request.
const LOOKUPS: usize = 200;

pub(super) async fn parts(
    served: &AppState,
    events: &[StoredEvent],
) -> StoreResult<Vec<CorrelationPartDto>> {
    let mut parts = appending(events);
    // The last event of each stream represents those before it. Reactions never follow reserved
    // streams.
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
            if let Some(stands) = progress(route, followed, event) {
                add(&mut parts, route, event, stands);
            }
        }
    }
    Ok(parts.into_values().collect())
}

/// Unfinished work is reported whatever was appended before: the event may be handled again.
fn add(
    parts: &mut BTreeMap<String, CorrelationPartDto>,
    route: &RouteState,
    event: &StoredEvent,
    stands: Progress,
) {
    let id = reaction_id(&route.reaction, &event.id.to_string());
    if stands.state != DONE || !parts.contains_key(&id) {
        parts.insert(
            id,
            CorrelationPartDto::of_reaction(&route.reaction, event.stream.as_str(), event, stands),
        );
    }
}

const DONE: &str = "done";

/// The reactions that appended one of these events while they handled another; by their ids.
fn appending(events: &[StoredEvent]) -> BTreeMap<String, CorrelationPartDto> {
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
        let stands = Progress { state: DONE, until: Some(appended.recorded_at), error: None };
        let part =
            CorrelationPartDto::of_reaction(&reaction, handled.stream.as_str(), handled, stands);
        parts.insert(part.id.clone(), part);
    }
    parts
}

/// Reactions that follow a stream, and the event that represents it.
fn pairs<'a>(
    routes: &'a [RouteState],
    streams: &BTreeMap<&str, &'a StoredEvent>,
) -> Vec<(&'a RouteState, &'a StoredEvent)> {
    let all = routes.iter().flat_map(|route| streams.values().map(move |event| (route, *event)));
    all.filter(|(route, event)| follows(route, event)).take(LOOKUPS).collect()
}

/// Whether a reaction follows the event's stream.
fn follows(route: &RouteState, event: &StoredEvent) -> bool {
    event.stream.as_str().starts_with(&route.streams) && event.position > route.start
}

/// The reaction's progress with the event; `None` if it has not reached it through this target.
fn progress(
    route: &RouteState,
    followed: Option<TargetInfo>,
    event: &StoredEvent,
) -> Option<Progress> {
    match followed {
        Some(target) if target.at.get() >= event.version.get() => {
            Some(Progress { state: DONE, ..Progress::default() })
        }
        Some(target) if target.blocked => {
            Some(Progress { state: "blocked", until: None, error: target.error })
        }
        Some(target) => Some(Progress { state: "waiting", until: None, error: target.error }),
        // Not routed yet.
        None if event.position > route.position => {
            Some(Progress { state: "waiting", ..Progress::default() })
        }
        None => None,
    }
}
