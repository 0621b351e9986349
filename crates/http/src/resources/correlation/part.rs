//! One part of a correlation: an event, a reaction that handles one, or a run.

use serde::Serialize;
use tidelock::runs::{RunId, RunInfo, run_of_stream};
use tidelock::store::{Position, StoredEvent};
use tidelock::{Metadata, Timestamp};
use utoipa::ToSchema;

/// An event, a reaction that handled one or has yet to, or a run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CorrelationPartDto {
    kind: PartKind,
    /// The event's id, for an event and for the run that it started; for a reaction, its name and
    /// the id of the event it handles: `mail:0198…`.
    pub(super) id: String,
    /// The id of its cause: an event, a run, or a reaction.
    causation: Option<String>,
    /// The event type, the reaction's name, or the run's workflow.
    name: String,
    /// The stream, the target, or the run.
    #[serde(rename = "where")]
    place: String,
    /// When the event was appended, the reaction's work became due, or the run started.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// When the reaction finished, if known, or the run ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) until: Option<Timestamp>,
    /// For a reaction: `waiting`, `blocked`, or `done`, also for an event that it ignores. For a
    /// run: `open`, or how it ended.
    #[schema(example = "done")]
    state: Option<&'static str>,
    /// The position of the event, of the handled event, or of the event that started the run.
    #[schema(value_type = u64)]
    position: Position,
    /// The stream of that event.
    stream: String,
    /// The reaction, if it is one.
    reaction: Option<String>,
    /// The run, if it is one, or if the event is in its history.
    run: Option<String>,
    /// The last error.
    error: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Event,
    Reaction,
    Run,
}

/// A reaction's progress with an event.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `waiting`, `blocked` or `done`.
    pub(super) state: &'static str,
    /// When it finished.
    pub(super) until: Option<Timestamp>,
    pub(super) error: Option<String>,
}

impl CorrelationPartDto {
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

    /// The run that this event started.
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

    /// A reaction that handles an event at this target.
    pub(super) fn of_reaction(
        reaction: &str,
        target: &str,
        handled: &StoredEvent,
        stands: Progress,
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

/// The cause of an event: another event, or the reaction that handled that.
fn cause(event: &StoredEvent) -> Option<String> {
    let Metadata { causation, reaction, .. } = Metadata::of(event);
    let causation = causation?.to_string();
    Some(reaction.map_or_else(|| causation.clone(), |reaction| reaction_id(&reaction, &causation)))
}

pub(super) fn reaction_id(reaction: &str, handled: &str) -> String {
    format!("{reaction}:{handled}")
}
