//! Keys of runs: the only place that spells their streams, record keys, queues, item keys and
//! reserved signals.
//!
//! Every reserved name begins with `~`. Names of workflows contain neither `/` nor `@`, and run ids
//! come last, so no key is a prefix of another by accident.

use tidelock_store::{
    EventId, EventType, ItemKey, ItemRef, NamePattern, QueueName, RecordKey, Result, StreamName,
    Timestamp,
};
use uuid::Uuid;

use super::names::ScheduleName;
use super::summary::RunState;
use super::{RunId, WorkflowName, WorkflowVersion};

/// The type of the first entry of a history.
pub(crate) const STARTED: &str = "~started";
/// The signal that requests cancellation; its payload is the reason.
pub(crate) const CANCEL: &str = "~cancel";
/// The signal with the verdict on a step.
pub(crate) const RESOLVE: &str = "~resolve";

const RUN: &str = "~run/";
const QUEUE: &str = "~runs/";
const INDEX: &str = "~run-index/";
const ATTRIBUTE: &str = "~run-attribute/";
const WORKFLOW: &str = "~workflow/";
const RETENTION: &str = "~run-retention";
const SCHEDULES: &str = "~schedules";
const SCHEDULE: &str = "~schedule/";
const ROOM: &str = "names of runs and workflows leave room for it";

/// The history of a run, including its signals.
pub(crate) fn stream(run: &RunId) -> StreamName {
    StreamName::new(format!("{RUN}{run}")).expect(ROOM)
}

/// The run of a history.
pub(crate) fn run_of_stream(stream: &StreamName) -> Option<RunId> {
    RunId::new(stream.as_str().strip_prefix(RUN)?).ok()
}

/// The summary of a run.
pub(crate) fn summary(run: &RunId) -> RecordKey {
    RecordKey::new(format!("{RUN}{run}")).expect(ROOM)
}

/// The queue of the runs of one version of a workflow.
pub(crate) fn queue(workflow: &WorkflowName, version: WorkflowVersion) -> QueueName {
    QueueName::new(format!("{QUEUE}{workflow}@{version}")).expect(ROOM)
}

/// The queues of the runs of all versions of a workflow.
pub(crate) fn queues(workflow: &WorkflowName) -> NamePattern {
    NamePattern::like(format!("{QUEUE}{workflow}@*"))
}

/// The workflow and version of a queue of runs.
pub(crate) fn workflow_of(queue: &QueueName) -> Option<(&str, WorkflowVersion)> {
    let (workflow, version) = queue.as_str().strip_prefix(QUEUE)?.rsplit_once('@')?;
    Some((workflow, WorkflowVersion(version.parse().ok()?)))
}

/// The work item of a run. Its lease is the right to drive the run.
pub(crate) fn item(workflow: &WorkflowName, version: WorkflowVersion, run: &RunId) -> ItemRef {
    ItemRef { queue: queue(workflow, version), key: ItemKey::new(run.as_str()).expect(ROOM) }
}

/// The index key of a run, by state, workflow and start time.
pub(crate) fn index(
    state: RunState,
    workflow: &WorkflowName,
    started_at: Timestamp,
    run: &RunId,
) -> RecordKey {
    index_key(&index_of(state, workflow), started_at, run.as_str()).expect(ROOM)
}

/// The index prefix of a workflow's runs in a state.
pub(crate) fn index_of(state: RunState, workflow: &WorkflowName) -> String {
    format!("{}{workflow}/", index_in(state))
}

/// The index prefix of all runs in a state.
pub(crate) fn index_in(state: RunState) -> String {
    format!("{INDEX}{}/", state.as_str())
}

/// The index prefix of a key: its state and workflow.
pub(crate) fn range_of(key: &RecordKey) -> Option<&str> {
    let (at, _) = key.as_str().match_indices('/').nth(2)?;
    key.as_str().get(..=at)
}

/// A key after all keys with this prefix, which ends with a slash, and before all later ones.
pub(crate) fn behind(prefix: &str) -> Result<RecordKey> {
    // The character after a slash.
    RecordKey::new(format!("{}0", prefix.strip_suffix('/').unwrap_or(prefix)))
}

/// The index key of a run, by attribute and start time.
pub(crate) fn attribute(
    name: &str,
    value: &str,
    started_at: Timestamp,
    run: &RunId,
) -> Result<RecordKey> {
    index_key(&attribute_of(name, value), started_at, run.as_str())
        .map_err(|e| e.about(format_args!("attribute {name:?} of run {:?}", run.as_str())))
}

/// The index prefix of all runs with this attribute.
pub(crate) fn attribute_of(name: &str, value: &str) -> String {
    format!("{ATTRIBUTE}{}={}/", escaped(name), escaped(value))
}

/// The index key of a run under a prefix: newest first, then by id.
pub(crate) fn index_key(prefix: &str, started_at: Timestamp, run: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{prefix}{}/{run}", age(started_at)))
}

/// A key after all runs that started at this time or later, and before all others.
pub(crate) fn before(prefix: &str, moment: Timestamp) -> Result<RecordKey> {
    behind(&format!("{prefix}{}/", age(moment)))
}

/// Smaller for newer times, with a fixed width.
fn age(moment: Timestamp) -> String {
    format!("{:019}", i64::MAX - moment.micros())
}

/// The start time and the run of an index key.
pub(crate) fn index_position(key: &RecordKey, prefix: &str) -> Option<(Timestamp, RunId)> {
    let (age, run) = key.as_str().strip_prefix(prefix)?.split_once('/')?;
    let started_at = Timestamp::from_micros(i64::MAX - age.parse::<i64>().ok()?).ok()?;
    Some((started_at, RunId::new(run).ok()?))
}

/// The kind of an entry, as it is shown: its event type without the mark of a reserved name.
pub(crate) fn entry_kind(event_type: &EventType) -> &str {
    event_type.as_str().trim_start_matches('~')
}

/// The event type of an entry of this kind.
pub(crate) fn entry_type(kind: &str) -> String {
    format!("~{kind}")
}

/// The newest version of a workflow that any process has registered.
pub(crate) fn workflow(workflow: &WorkflowName) -> RecordKey {
    RecordKey::new(format!("{WORKFLOW}{workflow}")).expect(ROOM)
}

/// The prefix of the records of all workflows that were registered.
pub(crate) const WORKFLOWS: &str = WORKFLOW;

/// The queue of ended runs, each due at the end of its retention.
pub(crate) fn removals() -> QueueName {
    QueueName::new(RETENTION).expect(ROOM)
}

/// The removal item of a run.
pub(crate) fn removal(run: &RunId) -> ItemRef {
    ItemRef { queue: removals(), key: ItemKey::new(run.as_str()).expect(ROOM) }
}

/// The queue of schedules, each due at its next occurrence.
pub(crate) fn schedules() -> QueueName {
    QueueName::new(SCHEDULES).expect(ROOM)
}

/// The record of a schedule.
pub(crate) fn schedule(schedule: &ScheduleName) -> RecordKey {
    RecordKey::new(format!("{SCHEDULE}{schedule}")).expect(ROOM)
}

/// The prefix of all schedule records.
pub(crate) fn schedule_records() -> &'static str {
    SCHEDULE
}

/// The work item of a schedule.
pub(crate) fn schedule_item(schedule: &ScheduleName) -> ItemRef {
    ItemRef { queue: schedules(), key: ItemKey::new(schedule.as_str()).expect(ROOM) }
}

/// The id of the run that a schedule starts for this occurrence.
pub(crate) fn scheduled_run(schedule: &ScheduleName, moment: Timestamp) -> RunId {
    let moment = moment.to_string();
    // To the second, the resolution of schedules.
    let second = moment.split_once('.').map_or(moment.as_str(), |(second, _)| second);
    RunId::new(format!("{schedule}@{second}Z")).expect(ROOM)
}

/// The id of a run, or the key of a job, that is started outside of the schedule's occurrences: to
/// the microsecond, so that it differs from that of an occurrence.
pub(crate) fn triggered_run(schedule: &ScheduleName, moment: Timestamp) -> RunId {
    RunId::new(format!("{schedule}@{moment}")).expect(ROOM)
}

/// The event id of a signal: derived from the signal's id, so that the store keeps it once.
pub(crate) fn signal_event(run: &RunId, signal_id: &str) -> EventId {
    let name = format!("{run}\0signal\0{signal_id}");
    EventId::from_bytes(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).into_bytes())
}

/// The event id of a request to a run: derived from the operation id, so that the store keeps it
/// once.
pub(crate) fn operation_event(run: &RunId, operation: &str) -> EventId {
    let name = format!("{run}\0operation\0{operation}");
    EventId::from_bytes(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).into_bytes())
}

/// Escapes slashes and equals signs, so that the keys of attributes never overlap.
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
    fn newer_runs_come_first_and_no_workflow_is_among_anothers() {
        let workflow = |name: &str| WorkflowName::new(name).unwrap();
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let key =
            |name: &str, micros| index(RunState::Open, &workflow(name), at(micros), &run("r"));
        assert!(key("checkout", 2) < key("checkout", 1));
        let behind = behind(&index_of(RunState::Open, &workflow("checkout"))).unwrap();
        assert!(key("checkout", 1) < behind && key("checkout-2", 1) < behind);
        assert!(behind < key("checkout0", 9) && behind < key("ship", 9));
        let before = before(&index_of(RunState::Open, &workflow("checkout")), at(2)).unwrap();
        assert!(key("checkout", 2) < before && before < key("checkout", 1));
    }

    #[test]
    fn a_key_leads_back_to_its_run() {
        let workflow = WorkflowName::new("checkout").unwrap();
        let began = Timestamp::from_micros(7).unwrap();
        let key = index(RunState::Open, &workflow, began, &run("a/b"));
        assert_eq!(key.as_str(), "~run-index/open/checkout/9223372036854775800/a/b");
        let prefix = index_of(RunState::Open, &workflow);
        assert_eq!(range_of(&key), Some(prefix.as_str()));
        assert_eq!(index_position(&key, &prefix), Some((began, run("a/b"))));
        let key = attribute("shop", "a/b=c", began, &run("x/y")).unwrap();
        assert_eq!(index_position(&key, &attribute_of("shop", "a/b=c")), Some((began, run("x/y"))));
        assert!(!key.as_str().starts_with(&attribute_of("shop", "a")));
        let queue = queue(&workflow, WorkflowVersion(2));
        assert_eq!(workflow_of(&queue), Some(("checkout", WorkflowVersion(2))));
    }
}
