//! Queues with items that are due, and nobody who takes them. One finding for each queue, however
//! many items wait.

use std::collections::BTreeMap;

use tidelock_store::{Item, QueueName, Timestamp};

use super::check::Check;
use super::diagnosis::Findings;
use super::display::{many, span};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use crate::reactions::keys::{link_removals, reaction_of};
use crate::runs::{WorkflowVersion, keys};

#[derive(Debug, Default)]
pub(super) struct Unserved {
    queues: BTreeMap<QueueName, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    items: u64,
    since: Timestamp,
}

impl Unserved {
    /// Counts an item that has been due for too long.
    pub(super) fn count(&mut self, item: &Item, exam: &Check) {
        let queue = &item.item.queue;
        let Some(ready) = item.ready_at().filter(|ready| exam.is_long_ago(*ready)) else { return };
        let waiting =
            self.queues.entry(queue.clone()).or_insert(Waiting { items: 0, since: ready });
        waiting.items += 1;
        waiting.since = waiting.since.min(ready);
    }

    pub(super) fn tell(self, exam: &Check, findings: &mut Findings) {
        for (queue, waiting) in self.queues {
            findings.add(waiting.finding(&queue, exam));
        }
    }
}

impl Waiting {
    fn finding(self, queue: &QueueName, exam: &Check) -> Finding {
        let Served { kind, thing, waits, noun, advice } = Served::by(queue);
        let (items, oldest) = (self.items, span(exam.now.since(self.since)));
        Finding {
            kind,
            severity: Severity::Error,
            subject: thing,
            since: Some(self.since),
            what: format!("{waits}: {}, the first for {oldest}", many(items, noun)),
            remedy: Remedy::advice(advice),
        }
    }
}

/// Who serves a queue, and what it means if nobody does.
struct Served {
    kind: FindingKind,
    thing: Subject,
    waits: &'static str,
    /// What waits.
    noun: &'static str,
    advice: String,
}

impl Served {
    fn by(queue: &QueueName) -> Self {
        match (reaction_of(queue), keys::workflow_of(queue)) {
            (Some(reaction), _) => Self::by_reaction(reaction),
            (None, Some((workflow, version))) => Self::by_driver(workflow, version),
            (None, None) if *queue == keys::schedules() => Self::starting(),
            (None, None) if *queue == keys::removals() => Self::removing(),
            (None, None) if *queue == link_removals() => Self::unlinking(queue),
            (None, None) => Self::by_worker(queue),
        }
    }

    fn by_reaction(reaction: &str) -> Self {
        Self {
            kind: FindingKind::Unserved,
            thing: Subject::Reaction(reaction.to_owned()),
            waits: "nobody takes what is due",
            noun: "target",
            advice: format!(
                "start, or add, a process that registers reaction {reaction:?} and serves its lanes"
            ),
        }
    }

    fn by_driver(workflow: &str, version: WorkflowVersion) -> Self {
        Self {
            kind: FindingKind::Unserved,
            thing: Subject::Workflow(workflow.to_owned(), version),
            waits: "nobody takes what is due",
            noun: "run",
            advice: "start, or add, a process that registers that version of it".to_owned(),
        }
    }

    fn starting() -> Self {
        Self {
            kind: FindingKind::Unserved,
            thing: Subject::Schedules,
            waits: "nobody starts the runs that are due",
            noun: "schedule",
            advice: BESIDE.to_owned(),
        }
    }

    fn removing() -> Self {
        Self {
            kind: FindingKind::Orphaned,
            thing: Subject::Runs,
            waits: "nobody removes those that have ended and are kept longer than they were to be",
            noun: "run",
            advice: BESIDE.to_owned(),
        }
    }

    fn unlinking(queue: &QueueName) -> Self {
        Self {
            kind: FindingKind::Unserved,
            thing: Subject::Queue(queue.clone()),
            waits: "no process removes the links to events that are gone",
            noun: "reaction",
            advice: "start a process that registers a reaction with computed targets: each does this, too"
                .to_owned(),
        }
    }

    fn by_worker(queue: &QueueName) -> Self {
        Self {
            kind: FindingKind::Unserved,
            thing: Subject::Queue(queue.clone()),
            waits: "nobody takes what is due",
            noun: "item",
            advice: "start, or add, a worker that serves it".to_owned(),
        }
    }
}

/// How to have a queue served.
pub(super) fn advice(queue: &QueueName) -> String {
    Served::by(queue).advice
}

/// What every process does that drives runs at all.
const BESIDE: &str = "start a process that registers a workflow: each does this, too";
