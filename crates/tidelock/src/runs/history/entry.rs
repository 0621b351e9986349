//! History entries and their events.
//!
//! The event type is the kind of the entry, and the payload its content. Entries that belong to an
//! operation carry its name, by which replay finds them; their order matters only for signals. Any
//! process may append a signal. Everything else is written by the holder of the run's lease, except
//! terminations and retries.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    EventType, Fence, NewEvent, RawJson, Result, StoreError, StoredEvent, Timestamp, limits,
};

use crate::runs::names::StepName;
use crate::runs::summary::Parent;
use crate::runs::{ExportedEntry, RunId, WorkflowName, WorkflowVersion, keys};

/// Generates the enum and its conversion to and from events: each entry is an event of the type
/// beside it.
macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident = $type:literal { $($(#[$field_doc:meta])* $field:ident: $of:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            pub(crate) struct $name { $($(#[$field_doc])* pub(crate) $field: $of),* }

            impl From<$name> for Entry {
                fn from(entry: $name) -> Self {
                    Self::$name(entry)
                }
            }
        )*

        /// One entry of a run's history.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum Entry { $($name($name)),* }

        impl Entry {
            /// Encodes it as an event with a fresh id.
            pub(crate) fn encode(&self) -> Result<NewEvent> {
                match self { $(Self::$name(entry) => NewEvent::of($type, entry)),* }
            }

            /// Decodes the type and payload of an event.
            fn parse(event_type: &EventType, payload: &RawJson) -> Result<Self> {
                match event_type.as_str() {
                    $($type => payload.to().map(Self::$name),)*
                    other => Err(StoreError::invalid(format!(
                        "event type {other:?} is no entry of a run; it was written by a later version of Tidelock, or by another program"
                    ))),
                }
            }
        }
    };
}

entries! {
    /// The run started.
    Started = "~started" {
        workflow: WorkflowName,
        version: WorkflowVersion,
        input: RawJson,
        parent: Option<Parent>,
        deadline: Option<Timestamp>,
    }
    /// A step completed with this result.
    StepDone = "~step" { name: StepName, result: RawJson }
    /// An attempt failed; the next one is due at `again_at`.
    AttemptFailed = "~attempt-failed" {
        name: StepName,
        attempt: u32,
        error: String,
        failed_at: Option<Timestamp>,
        again_at: Timestamp,
    }
    /// A step failed for good.
    StepFailed = "~step-failed" {
        name: StepName,
        attempts: u32,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        why: Why,
    }
    /// An at-most-once step is about to run.
    Intent = "~intent" { name: StepName }
    /// The outcome of such a step is unknown; it waits for a verdict.
    UnknownOutcome = "~unknown-outcome" { name: StepName }
    /// A sleep until this time.
    Timer = "~timer" { name: StepName, until: Timestamp }
    /// The sleep ended.
    Fired = "~fired" { name: StepName }
    /// A wait for a signal.
    Waiting = "~waiting" { name: StepName, signal: String, until: Option<Timestamp> }
    /// The wait ended: this signal came.
    Received = "~received" { name: StepName, id: String }
    /// The wait ended: no signal came in time.
    TimedOut = "~timed-out" { name: StepName }
    /// A step, a sleep, a wait or the wait for a child was cancelled.
    Interrupted = "~interrupted" { name: StepName, kind: Interruptible }
    /// A recorded operation was dropped before its end.
    Dropped = "~dropped" { name: StepName }
    /// A signal arrived. Reserved ones begin with `~`.
    Signalled = "~signalled" { signal: String, id: String, payload: RawJson }
    /// A child was started, in the same commit.
    ChildStarted = "~child" { name: StepName, run: RunId }
    /// A child ended.
    ChildEnded = "~child-ended" { name: StepName, outcome: RunOutcome }
    /// A non-deterministic value.
    Value = "~value" { name: StepName, value: RawJson }
    /// A published status.
    Published = "~published" { name: StepName, status: RawJson }
    /// Which side of a code change the run is on.
    Patched = "~patched" { name: StepName, taken: bool }
    /// A race was won by this branch.
    Won = "~won" { name: StepName, branch: usize }
    /// The run's deadline passed.
    OutOfTime = "~out-of-time" { deadline: Timestamp }
    /// An earlier holder of the lease died.
    TakenOver = "~taken-over" { fence: Fence }
    /// The function returned this result.
    Completed = "~completed" { result: RawJson }
    /// The function returned an error.
    Failed = "~failed" { failure: RunFailure }
    /// The run was cancelled.
    Cancelled = "~cancelled" { reason: String }
    /// The run was terminated.
    Terminated = "~terminated" { reason: String }
    /// The run continued as new with this input; unreceived signals were carried over.
    Continued = "~continued" {
        generation: u32,
        input: RawJson,
        carried: Vec<Signalled>,
        /// Ids of signals that were seen, so that they are not received again.
        seen: Vec<String>,
        /// Metadata of the events that the run causes.
        metadata: RawJson,
    }
    /// A failed run was retried from the step that failed.
    Retried = "~retried" { reason: String }
}

impl Signalled {
    /// Whether both are the same signal. White space and the order of keys in the payload do not
    /// matter.
    pub(crate) fn is_same_signal(&self, other: &Self) -> bool {
        let same_names = self.signal == other.signal && self.id == other.id;
        same_names && self.payload.same_value(&other.payload)
    }
}

/// The kinds of operations that can be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Interruptible {
    Step,
    Sleep,
    Wait,
    Child,
}

/// Why a step failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// It failed, and is not retried.
    Failed,
    /// It timed out.
    TimedOut,
    /// Its outcome is unknown.
    UnknownOutcome,
    /// It was done, and its result cannot be stored.
    Unstorable,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFailure {
    /// The error of its function.
    pub error: String,
    /// The code of the error, if it [has one](crate::HandlerError::with_code).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The step that failed, if that was the cause.
    pub step: Option<StepName>,
    /// Whether steps were compensated: then the run cannot be retried.
    pub compensated: bool,
    /// Whether its deadline passed.
    pub timed_out: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Its function returned this result.
    Completed(RawJson),
    /// Its function returned an error.
    Failed(RunFailure),
    /// It was cancelled, for this reason.
    Cancelled(String),
    /// It was terminated, for this reason.
    Terminated(String),
}

impl RunFailure {
    /// A failure with this error only.
    pub(crate) fn with_error(error: String) -> Self {
        Self { error, code: None, step: None, compensated: false, timed_out: false }
    }
}

/// Truncates an error, and removes characters that JSON cannot hold.
pub(crate) fn cut(error: &str) -> String {
    let fits = |c| if c == '\0' { '\u{fffd}' } else { c };
    error.chars().take(limits::ERROR_CHARS).map(fits).collect()
}

impl Entry {
    /// Decodes the entry of an event.
    pub(crate) fn decode(event: &StoredEvent) -> Result<Self> {
        Self::parse(&event.event_type, &event.payload).map_err(|e| {
            e.about(format_args!("stream {:?}, version {}", event.stream, event.version))
        })
    }

    /// Decodes an exported entry.
    pub(crate) fn decode_exported(exported: &ExportedEntry) -> Result<Self> {
        let event_type = EventType::new(keys::entry_type(&exported.kind))?;
        Self::parse(&event_type, &exported.data)
            .map_err(|e| e.about(format_args!("entry {}", exported.number)))
    }

    /// The operation that this entry ends or drops, if any.
    pub(crate) fn answered(&self) -> Option<&StepName> {
        match self {
            Self::StepDone(StepDone { name, .. })
            | Self::StepFailed(StepFailed { name, .. })
            | Self::Fired(Fired { name })
            | Self::Received(Received { name, .. })
            | Self::TimedOut(TimedOut { name })
            | Self::Interrupted(Interrupted { name, .. })
            | Self::Dropped(Dropped { name })
            | Self::ChildEnded(ChildEnded { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// How the run ended, if this entry ends it.
    pub(crate) fn outcome(&self) -> Option<RunOutcome> {
        match self {
            Self::Completed(entry) => Some(RunOutcome::Completed(entry.result.clone())),
            Self::Failed(entry) => Some(RunOutcome::Failed(entry.failure.clone())),
            Self::Cancelled(entry) => Some(RunOutcome::Cancelled(entry.reason.clone())),
            Self::Terminated(entry) => Some(RunOutcome::Terminated(entry.reason.clone())),
            _ => None,
        }
    }
}

/// A verdict on a step with unknown outcome: the payload of the signal `~resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resolution {
    pub(crate) step: StepName,
    pub(crate) verdict: Verdict,
}

/// The verdict on a step with unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was not done: run it.
    Rerun,
    /// It was done, with this result.
    Done(RawJson),
    /// It counts as failed.
    Fail(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::{ExpectedVersion, MemoryStore, StoreExt, StreamName};

    #[tokio::test]
    async fn an_entry_survives_the_store() {
        let name = StepName::new("charge").unwrap();
        let entries: Vec<Entry> = vec![
            StepDone {
                name: name.clone(),
                result: RawJson::new(&serde_json::json!({ "paid": 7 })).unwrap(),
            }
            .into(),
            Received { name: name.clone(), id: "s-1".into() }.into(),
            ChildEnded { name, outcome: RunOutcome::Cancelled("enough".into()) }.into(),
            Retried { reason: String::new() }.into(),
        ];
        let (store, stream) = (MemoryStore::new(), StreamName::new("~run/r").unwrap());
        let events = entries.iter().map(|entry| entry.encode().unwrap()).collect();
        store
            .append(&stream, ExpectedVersion::NoStream, events)
            .await
            .unwrap()
            .committed()
            .unwrap();
        let read = store.read_whole_stream(&stream).await.unwrap();
        assert_eq!(read[0].event_type.as_str(), "~step");
        assert_eq!(
            read.iter().map(|event| Entry::decode(event).unwrap()).collect::<Vec<_>>(),
            entries
        );
    }

    #[tokio::test]
    async fn an_event_that_is_no_entry_is_named() {
        let (store, stream) = (MemoryStore::new(), StreamName::new("~run/r").unwrap());
        let odd = NewEvent::of("~later", &()).unwrap();
        store
            .append(&stream, ExpectedVersion::NoStream, vec![odd])
            .await
            .unwrap()
            .committed()
            .unwrap();
        let events = store.read_whole_stream(&stream).await.unwrap();
        let refused = Entry::decode(&events[0]).unwrap_err().to_string();
        assert!(
            refused.contains(r#"stream "~run/r", version 1: event type "~later""#),
            "{refused}"
        );
    }
}
