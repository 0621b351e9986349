//! Unserved queues: items are due, and no worker takes them. One finding per queue, however many
//! items wait.

use std::collections::BTreeMap;

use tidelock_store::{Item, QueueName, Timestamp};

use super::display::{many, span};
use super::examination::Examination;
use super::finding::{Finding, FindingKind, Findings};
use super::subject::Subject;
use crate::reactions::keys::{link_removals, projection_rebuilds, reaction_of};
use crate::runs::keys;

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
    /// Whether an item has been due for too long.
    pub(super) fn concerns(&self, item: &Item, exam: &Examination) -> bool {
        item.ready_at().is_some_and(|ready| exam.is_stuck(ready))
    }

    /// Counts an item that has been due for too long.
    pub(super) fn count(&mut self, item: &Item, exam: &Examination) {
        let queue = &item.item.queue;
        if !self.concerns(item, exam) {
            return;
        }
        let Some(ready) = item.ready_at() else { return };
        let waiting =
            self.queues.entry(queue.clone()).or_insert(Waiting { items: 0, since: ready });
        waiting.items += 1;
        waiting.since = waiting.since.min(ready);
    }

    pub(super) fn report(self, exam: &Examination, findings: &mut Findings) {
        for (queue, waiting) in self.queues {
            findings.add(waiting.finding(&queue, exam));
        }
    }
}

impl Waiting {
    fn finding(self, queue: &QueueName, exam: &Examination) -> Finding {
        let QueueServer { kind, subject, waits, noun, advice } = QueueServer::by(queue);
        let (items, oldest) = (self.items, span(exam.now.since(self.since)));
        let what = format!("{waits}: {}, the first for {oldest}", many(items, noun));
        Finding::error(kind, subject, what).since(self.since).advice(advice)
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
        let work = "no worker takes its due work";
        match (reaction_of(queue), keys::workflow_of(queue)) {
            (Some(reaction), _) => Self::of(Subject::Reaction(reaction.to_owned()), work, "target")
                .advice(format!(
                    "start or add a process that registers reaction {reaction:?} and serves its lanes"
                )),
            (None, Some((workflow, version))) => {
                Self::of(Subject::Workflow(workflow.to_owned(), version), work, "run")
                    .advice("start or add a process that registers that version")
            }
            (None, None) if *queue == keys::schedules() => {
                let waits = "no worker starts the runs that are due";
                Self::of(Subject::Schedules, waits, "schedule").advice(ANY_DRIVER)
            }
            (None, None) if *queue == keys::removals() => {
                let waits = "no worker removes the ended ones whose retention is over";
                let server = Self::of(Subject::Runs, waits, "run").advice(ANY_DRIVER);
                Self { kind: FindingKind::Orphaned, ..server }
            }
            (None, None) if *queue == link_removals() => {
                let waits = "no process removes the links to events that are gone";
                Self::of(Subject::Queue(queue.clone()), waits, "reaction").advice(
                    "start a process that registers a reaction with computed targets; each of them does this",
                )
            }
            (None, None) if *queue == projection_rebuilds() => {
                let waits = "no process rebuilds it, or deletes the rows of an earlier rebuild";
                Self::of(Subject::Queue(queue.clone()), waits, "projection")
                    .advice("start a process that registers a projection; each of them does this")
            }
            (None, None) => Self::of(Subject::Queue(queue.clone()), work, "item")
                .advice("start or add a worker that serves it"),
        }
    }

    fn of(subject: Subject, waits: &'static str, noun: &'static str) -> Self {
        Self { kind: FindingKind::Unserved, subject, waits, noun, advice: String::new() }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

/// How to get a queue served.
pub(super) fn advice(queue: &QueueName) -> String {
    QueueServer::by(queue).advice
}

/// Every process that drives runs does this.
const ANY_DRIVER: &str =
    "start a process that registers a workflow or a job; each of them does this";
