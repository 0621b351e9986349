//! The only place where a stream, a record key, a queue, an item key or a reserved signal of runs is spelled.
//!
//! Everything that Tidelock names for itself begins with `~`. Names of workflows have no `/` and no `@`, and ids of runs
//! come last, so no key is part of another's.

use tidelock_store::{EventId, ItemKey, ItemRef, QueueName, RecordKey, Result, StreamName, Timestamp};
use uuid::Uuid;

use super::summary::RunState;
use super::{RunId, WorkflowName, WorkflowVersion};

/// The signal that asks a run to cancel; its payload is the reason.
pub(crate) const CANCEL: &str = "~cancel";
/// The signal that says what became of an ambiguous step.
pub(crate) const RESOLVE: &str = "~resolve";

const RUN: &str = "~run/";
const QUEUE: &str = "~runs/";
const INDEX: &str = "~run-index/";
const ATTRIBUTE: &str = "~run-attribute/";
const WORKFLOW: &str = "~workflow/";
const ROOM: &str = "names of runs and workflows leave room for it";

/// What happened in a run, signals to it included.
pub(crate) fn stream(run: &RunId) -> StreamName {
    StreamName::new(format!("{RUN}{run}")).expect(ROOM)
}

/// What a run is, in short.
pub(crate) fn summary(run: &RunId) -> RecordKey {
    RecordKey::new(format!("{RUN}{run}")).expect(ROOM)
}

/// The runs of one version of a workflow, for those who can drive them.
pub(crate) fn queue(workflow: &WorkflowName, version: WorkflowVersion) -> QueueName {
    QueueName::new(format!("{QUEUE}{workflow}@{version}")).expect(ROOM)
}

/// The pattern of all queues of runs.
pub(crate) fn queues() -> String {
    format!("{QUEUE}*")
}

/// The workflow and the version that a queue of runs is for.
pub(crate) fn workflow_of(queue: &QueueName) -> Option<(&str, WorkflowVersion)> {
    let (workflow, version) = queue.as_str().strip_prefix(QUEUE)?.rsplit_once('@')?;
    Some((workflow, WorkflowVersion(version.parse().ok()?)))
}

/// The right to drive a run.
pub(crate) fn item(workflow: &WorkflowName, version: WorkflowVersion, run: &RunId) -> ItemRef {
    ItemRef { queue: queue(workflow, version), key: ItemKey::new(run.as_str()).expect(ROOM) }
}

/// Where a run is found by its state, its workflow and the time of its start.
pub(crate) fn index(
    state: RunState,
    workflow: &WorkflowName,
    started_at: Timestamp,
    run: &RunId,
) -> RecordKey {
    let prefix = index_of(state, workflow);
    RecordKey::new(format!("{prefix}{:020}/{run}", started_at.micros())).expect(ROOM)
}

/// What the keys of all runs of a workflow in a state begin with; behind it, the time in microseconds, by twenty digits.
pub(crate) fn index_of(state: RunState, workflow: &WorkflowName) -> String {
    format!("{}{workflow}/", index_in(state))
}

/// What the keys of all runs in a state begin with.
pub(crate) fn index_in(state: RunState) -> String {
    format!("{INDEX}{}/", state.as_str())
}

/// The run that such a key leads to.
pub(crate) fn indexed_run(key: &RecordKey) -> Option<&str> {
    key.as_str().strip_prefix(INDEX)?.splitn(4, '/').nth(3)
}

/// Where a run is found by an attribute.
pub(crate) fn attribute(name: &str, value: &str, run: &RunId) -> Result<RecordKey> {
    RecordKey::new(format!("{}{run}", attribute_of(name, value)))
}

/// What the keys of all runs with this attribute begin with.
pub(crate) fn attribute_of(name: &str, value: &str) -> String {
    format!("{ATTRIBUTE}{}={}/", escaped(name), escaped(value))
}

/// The run that such a key leads to.
pub(crate) fn attributed_run(key: &RecordKey) -> Option<&str> {
    key.as_str().strip_prefix(ATTRIBUTE)?.split_once('/').map(|(_, run)| run)
}

/// The newest version of a workflow that any process has registered.
pub(crate) fn workflow(workflow: &WorkflowName) -> RecordKey {
    RecordKey::new(format!("{WORKFLOW}{workflow}")).expect(ROOM)
}

/// The id of the event that a signal becomes: the same for the same signal, so that it is there once.
pub(crate) fn signal_event(run: &RunId, signal_id: &str) -> EventId {
    let name = format!("{run}\0signal\0{signal_id}");
    EventId::from_bytes(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).into_bytes())
}

/// Without a slash or a sign of equality, so that no attribute's keys are among another's.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F").replace('=', "%3D")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> RunId {
        RunId::new(id).unwrap()
    }

    #[test]
    fn the_longest_names_fit() {
        let (run, workflow) = (run(&"r".repeat(200)), WorkflowName::new("w".repeat(64)).unwrap());
        let last = "9999-01-01T00:00:00Z".parse().unwrap();
        stream(&run);
        summary(&run);
        item(&workflow, WorkflowVersion(u32::MAX), &run);
        index(RunState::Terminated, &workflow, last, &run);
    }

    #[test]
    fn a_key_leads_back_to_its_run() {
        let workflow = WorkflowName::new("checkout").unwrap();
        let began = Timestamp::from_micros(7).unwrap();
        let key = index(RunState::Open, &workflow, began, &run("a/b"));
        assert_eq!(key.as_str(), "~run-index/open/checkout/00000000000000000007/a/b");
        assert_eq!(indexed_run(&key), Some("a/b"));
        let key = attribute("shop", "a/b=c", &run("x/y")).unwrap();
        assert_eq!(attributed_run(&key), Some("x/y"));
        assert!(!key.as_str().starts_with(&attribute_of("shop", "a")));
        let queue = queue(&workflow, WorkflowVersion(2));
        assert_eq!(workflow_of(&queue), Some(("checkout", WorkflowVersion(2))));
    }
}
