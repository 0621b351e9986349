//! One thing that happened in a run, and the event that says so.
//!
//! The type of the event is the kind of the entry, and its payload what the entry says. Entries
//! that belong to an operation have its name, by which a replay finds them; what order they are in
//! matters for signals only. Anybody may write a signal; everything else is written by the holder
//! of the run's lease, but for a termination and a retry.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    EventType, Fence, NewEvent, RawJson, Result, StoreError, StoredEvent, Timestamp,
};

use crate::runs::names::StepName;
use crate::runs::summary::Parent;
use crate::runs::{RunId, WorkflowName, WorkflowVersion};

/// Makes the enum, and its way to an event and back: each entry is an event of the type beside it.
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

        /// One thing that happened in a run.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum Entry { $($name($name)),* }

        impl Entry {
            /// As an event, under a fresh id.
            pub(crate) fn encode(&self) -> Result<NewEvent> {
                match self { $(Self::$name(entry) => NewEvent::of($type, entry)),* }
            }

            /// From the type and the payload of an event.
            fn parse(event_type: &EventType, payload: &RawJson) -> Result<Self> {
                match event_type.as_str() {
                    $($type => payload.to().map(Self::$name),)*
                    other => Err(StoreError::invalid(format!(
                        "event type {other:?} is no entry of a run; it was written by a later version of Tidelock, or by somebody else"
                    ))),
                }
            }
        }
    };
}

entries! {
    /// It began.
    Started = "~started" {
        workflow: WorkflowName,
        version: WorkflowVersion,
        input: RawJson,
        parent: Option<Parent>,
        deadline: Option<Timestamp>,
    }
    /// A step was done, with this result.
    StepDone = "~step" { name: StepName, result: RawJson }
    /// A step failed, and is to be tried again then.
    AttemptFailed = "~attempt-failed" { name: StepName, attempt: u32, error: String, again_at: Timestamp }
    /// A step failed for good.
    StepFailed = "~step-failed" { name: StepName, attempts: u32, error: String, why: Why }
    /// A step that must not be done twice is about to be done.
    Intent = "~intent" { name: StepName }
    /// Such a step was begun, and nobody knows what became of it; an operator is asked.
    Ambiguous = "~ambiguous" { name: StepName }
    /// A sleep until then.
    Timer = "~timer" { name: StepName, until: Timestamp }
    /// The sleep is over.
    Fired = "~fired" { name: StepName }
    /// A wait for a signal.
    Waiting = "~waiting" { name: StepName, signal: String, until: Option<Timestamp> }
    /// The wait is over: this signal came.
    Received = "~received" { name: StepName, id: String }
    /// The wait is over: nothing came in time.
    TimedOut = "~timed-out" { name: StepName }
    /// A step, a sleep, a wait or the wait for a child was cut short because the run is to cancel.
    Interrupted = "~interrupted" { name: StepName, kind: Interruptible }
    /// Something that was recorded was let go of: nobody waits for its end any more.
    Dropped = "~dropped" { name: StepName }
    /// Somebody sent a signal; those of Tidelock's own begin with `~`.
    Signalled = "~signalled" { signal: String, id: String, payload: RawJson }
    /// A child was started, in the same commit.
    ChildStarted = "~child" { name: StepName, run: RunId }
    /// A child has ended.
    ChildEnded = "~child-ended" { name: StepName, outcome: RunOutcome }
    /// A value was drawn that would be another one next time.
    Value = "~value" { name: StepName, value: RawJson }
    /// The run said this about itself, for whoever asks.
    Published = "~published" { name: StepName, status: RawJson }
    /// Which side of a change of code the run is on.
    Patched = "~patched" { name: StepName, taken: bool }
    /// A race was won by this branch.
    Won = "~won" { name: StepName, branch: usize }
    /// The run's time is up.
    OutOfTime = "~out-of-time" { deadline: Timestamp }
    /// An earlier holder of the lease died.
    TakenOver = "~taken-over" { fence: Fence }
    /// The function returned this.
    Completed = "~completed" { result: RawJson }
    /// The function returned an error.
    Failed = "~failed" { failure: RunFailure }
    /// The function ended because it was asked to cancel.
    Cancelled = "~cancelled" { reason: String }
    /// The run was ended from outside.
    Terminated = "~terminated" { reason: String }
    /// It began again with this input; signals that nobody had received were carried along.
    Continued = "~continued" {
        generation: u32,
        input: RawJson,
        carried: Vec<Signalled>,
        /// Ids of signals that had been seen, so that they are not taken again.
        seen: Vec<String>,
        /// What events say that the run leads to.
        metadata: RawJson,
    }
    /// A failed run goes on from the step that failed.
    Retried = "~retried" { reason: String }
}

impl Signalled {
    /// Whether both are the same signal: spaces and the order of keys in its payload make no other.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let same_names = self.signal == other.signal && self.id == other.id;
        same_names && self.payload.same_value(&other.payload)
    }
}

/// What can be cut short.
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
    /// It failed, and was not to be tried again.
    Failed,
    /// It took too long.
    TimedOut,
    /// Nobody knows whether it was done.
    Ambiguous,
    /// It was done, and its result cannot be stored.
    Unstorable,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFailure {
    /// What its function said.
    pub error: String,
    /// The step that failed, if that was why.
    pub step: Option<StepName>,
    /// Whether steps were undone: then the run cannot be retried.
    pub compensated: bool,
    /// Whether its time was up.
    pub timed_out: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Its function returned this.
    Completed(RawJson),
    /// Its function returned an error.
    Failed(RunFailure),
    /// It was cancelled, for this reason.
    Cancelled(String),
    /// It was terminated, for this reason.
    Terminated(String),
}

impl RunFailure {
    /// It failed, and this is all there is to say.
    pub(crate) fn saying(error: String) -> Self {
        Self { error, step: None, compensated: false, timed_out: false }
    }
}

impl Entry {
    /// The entry that an event stands for.
    pub(crate) fn decode(event: &StoredEvent) -> Result<Self> {
        Self::parse(&event.event_type, &event.payload).map_err(|e| {
            e.about(format_args!("stream {:?}, version {}", event.stream, event.version))
        })
    }

    /// The operation that nobody waits for any more after this, if there is one.
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

    /// How the run ended, if this ends it.
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

/// What an operator says became of an ambiguous step: the payload of the signal `~resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resolution {
    pub(crate) step: StepName,
    pub(crate) verdict: Verdict,
}

/// What is to be done about an ambiguous step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was not done: do it.
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
