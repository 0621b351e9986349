//! One thing in a conversation: an event, a reaction that handles one, or a run.

use serde::Serialize;
use tidelock::runs::{RunId, RunInfo, run_of_stream};
use tidelock::{Metadata, Position, StoredEvent, Timestamp};
use utoipa::ToSchema;

/// An event, a reaction that handled one or has yet to, or a run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Part {
    kind: PartKind,
    /// Of an event, and of the run that it began, the event's id; of a reaction, its name and the
    /// id of what it handles: `mail:0198…`.
    pub(super) id: String,
    /// The id of what led to it: an event, a run, or a reaction.
    causation: Option<String>,
    /// The type of the event, the reaction, or the workflow of the run.
    name: String,
    /// The stream, the target, or the run.
    #[serde(rename = "where")]
    place: String,
    /// When the event was appended, the reaction had something to do, or the run began.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// When the reaction was done with it, if it is known, or the run ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) until: Option<Timestamp>,
    /// Of a reaction: `waiting`, `blocked`, or `done`, which it also is with an event that it does
    /// not want. Of a run: `open`, or how it ended.
    #[schema(example = "done")]
    state: Option<&'static str>,
    /// Where the event is in the feed, or that which is handled, or which began the run.
    #[schema(value_type = u64)]
    position: Position,
    /// The stream of that event.
    stream: String,
    /// The reaction, if it is one.
    reaction: Option<String>,
    /// The run, if it is one, or if the event is in its history.
    run: Option<String>,
    /// What went wrong last.
    error: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Event,
    Reaction,
    Run,
}

/// How a reaction is with what it is to handle.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// `waiting`, `blocked` or `done`.
    pub(super) state: &'static str,
    /// When it was done.
    pub(super) until: Option<Timestamp>,
    pub(super) error: Option<String>,
}

impl Part {
    pub(super) fn of_event(event: &StoredEvent) -> Self {
        Self {
            kind: PartKind::Event,
            id: event.id.to_string(),
            causation: cause(event),
            name: event.event_type.to_string(),
            place: event.stream.to_string(),
            at: event.recorded_at,
            until: None,
            state: None,
            position: event.position,
            stream: event.stream.to_string(),
            reaction: None,
            run: run_of_stream(&event.stream).as_ref().map(named),
            error: None,
        }
    }

    /// The run that this event began.
    pub(super) fn of_run(run: &RunInfo, began: &StoredEvent) -> Self {
        Self {
            kind: PartKind::Run,
            name: format!("{}@{}", run.workflow.as_str(), run.version),
            place: named(&run.run),
            until: run.ended_at,
            state: Some(run.state.as_str()),
            run: Some(named(&run.run)),
            ..Self::of_event(began)
        }
    }

    /// This reaction, with what it is to handle, at this target.
    pub(super) fn of_reaction(
        reaction: &str,
        target: &str,
        handled: &StoredEvent,
        stands: Standing,
    ) -> Self {
        Self {
            kind: PartKind::Reaction,
            id: reaction_id(reaction, &handled.id.to_string()),
            causation: Some(handled.id.to_string()),
            name: reaction.to_owned(),
            place: target.to_owned(),
            until: stands.until,
            state: Some(stands.state),
            reaction: Some(reaction.to_owned()),
            run: None,
            error: stands.error,
            ..Self::of_event(handled)
        }
    }
}

fn named(run: &RunId) -> String {
    run.as_str().to_owned()
}

/// What led to an event: another one, or the reaction that handled that.
fn cause(event: &StoredEvent) -> Option<String> {
    let Metadata { causation, reaction, .. } = Metadata::of(event);
    let causation = causation?.to_string();
    Some(reaction.map_or_else(|| causation.clone(), |reaction| reaction_id(&reaction, &causation)))
}

pub(super) fn reaction_id(reaction: &str, handled: &str) -> String {
    format!("{reaction}:{handled}")
}
