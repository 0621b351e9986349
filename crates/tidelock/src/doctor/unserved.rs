//! Unserved queues: items are due, and no worker takes them. One finding per queue, however many
//! items wait.

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
    pub(super) fn count(&mut self, item: &Item, ctx: &Check) {
        let queue = &item.item.queue;
        let Some(ready) = item.ready_at().filter(|ready| ctx.is_long_ago(*ready)) else { return };
        let waiting =
            self.queues.entry(queue.clone()).or_insert(Waiting { items: 0, since: ready });
        waiting.items += 1;
        waiting.since = waiting.since.min(ready);
    }

    pub(super) fn report(self, ctx: &Check, findings: &mut Findings) {
        for (queue, waiting) in self.queues {
            findings.add(waiting.finding(&queue, ctx));
        }
    }
}

impl Waiting {
    fn finding(self, queue: &QueueName, ctx: &Check) -> Finding {
        let QueueServer { kind, subject, waits, noun, advice } = QueueServer::by(queue);
        let (items, oldest) = (self.items, span(ctx.now.since(self.since)));
        Finding {
            kind,
            severity: Severity::Error,
            subject,
            since: Some(self.since),
            what: format!("{waits}: {}, the first for {oldest}", many(items, noun)),
            remedy: Remedy::advice(advice),
        }
    }
}

/// Which process serves a queue, and what it means if none does.
struct QueueServer {
    kind: FindingKind,
    subject: Subject,
    waits: &'static str,
    /// The noun for the waiting items.
    noun: &'static str,
    advice: String,
}

impl QueueServer {
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
            subject: Subject::Reaction(reaction.to_owned()),
            waits: "no worker takes its due work",
            noun: "target",
            advice: format!(
                "start or add a process that registers reaction {reaction:?} and serves its lanes"
            ),
        }
    }

    fn by_driver(workflow: &str, version: WorkflowVersion) -> Self {
        Self {
            kind: FindingKind::Unserved,
            subject: Subject::Workflow(workflow.to_owned(), version),
            waits: "no worker takes its due work",
            noun: "run",
            advice: "start or add a process that registers that version".to_owned(),
        }
    }

    fn starting() -> Self {
        Self {
            kind: FindingKind::Unserved,
            subject: Subject::Schedules,
            waits: "no worker starts the runs that are due",
            noun: "schedule",
            advice: ANY_DRIVER.to_owned(),
        }
    }

    fn removing() -> Self {
        Self {
            kind: FindingKind::Orphaned,
            subject: Subject::Runs,
            waits: "no worker removes the ended ones whose retention is over",
            noun: "run",
            advice: ANY_DRIVER.to_owned(),
        }
    }

    fn unlinking(queue: &QueueName) -> Self {
        Self {
            kind: FindingKind::Unserved,
            subject: Subject::Queue(queue.clone()),
            waits: "no process removes the links to events that are gone",
            noun: "reaction",
            advice: "start a process that registers a reaction with computed targets; each of them does this"
                .to_owned(),
        }
    }

    fn by_worker(queue: &QueueName) -> Self {
        Self {
            kind: FindingKind::Unserved,
            subject: Subject::Queue(queue.clone()),
            waits: "no worker takes its due work",
            noun: "item",
            advice: "start or add a worker that serves it".to_owned(),
        }
    }
}

/// How to get a queue served.
pub(super) fn advice(queue: &QueueName) -> String {
    QueueServer::by(queue).advice
}

/// Every process that drives runs does this.
const ANY_DRIVER: &str = "start a process that registers a workflow; each of them does this";
