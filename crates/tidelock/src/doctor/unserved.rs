//! Queues with items that are due, and nobody who takes them. One finding for each queue, however many items wait.

use std::collections::BTreeMap;

use tidelock_store::{Item, QueueName, Timestamp};

use super::cure::Cure;
use super::diagnosis::Findings;
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use super::words::span;
use crate::closing::is_desk;
use crate::reactions::keys::reaction_of;
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
    /// Counts an item that has been due for too long.
    pub(super) fn count(&mut self, item: &Item, exam: &Exam) {
        let queue = &item.item.queue;
        let Some(ready) = item.ready_at().filter(|ready| !is_desk(queue) && exam.is_long_ago(*ready)) else {
            return;
        };
        let waiting = self.queues.entry(queue.clone()).or_insert(Waiting { items: 0, since: ready });
        waiting.items += 1;
        waiting.since = waiting.since.min(ready);
    }

    pub(super) fn tell(self, exam: &Exam, findings: &mut Findings) {
        for (queue, waiting) in self.queues {
            findings.add(waiting.finding(&queue, exam));
        }
    }
}

impl Waiting {
    fn finding(self, queue: &QueueName, exam: &Exam) -> Finding {
        let Served { kind, thing, waits, advice } = Served::by(queue);
        let (items, oldest) = (self.items, span(exam.now.since(self.since)));
        Finding {
            kind,
            severity: Severity::Sick,
            thing,
            since: Some(self.since),
            what: format!("{items} {waits}, the first for {oldest}"),
            cure: Cure::advice(advice),
        }
    }
}

/// Who serves a queue, and what it means if nobody does.
struct Served {
    kind: Kind,
    thing: Thing,
    waits: &'static str,
    advice: String,
}

impl Served {
    fn by(queue: &QueueName) -> Self {
        match reaction_of(queue) {
            Some(reaction) => Self::by_reaction(reaction),
            None if *queue == keys::schedules() => {
                Self::by_any_driver(Kind::Unserved, Thing::Schedules, "are due and nobody starts their runs")
            }
            None if *queue == keys::removals() => Self::by_any_driver(
                Kind::Orphaned,
                Thing::Runs,
                "have ended and are kept longer than they were to be, because nobody removes them",
            ),
            None => Self::by_worker(queue),
        }
    }

    fn by_reaction(reaction: &str) -> Self {
        Self {
            kind: Kind::Unserved,
            thing: Thing::Reaction(reaction.to_owned()),
            waits: "targets are due and nobody takes them",
            advice: format!(
                "start, or add, a process that registers reaction {reaction:?} and serves its lanes"
            ),
        }
    }

    fn by_any_driver(kind: Kind, thing: Thing, waits: &'static str) -> Self {
        Self {
            kind,
            thing,
            waits,
            advice: "start a process that registers a workflow: each does this, too".to_owned(),
        }
    }

    fn by_worker(queue: &QueueName) -> Self {
        let (thing, waits, advice) = match keys::workflow_of(queue) {
            Some((workflow, version)) => (
                Thing::Workflow(workflow.to_owned(), version),
                "runs are due and nobody takes them",
                "start, or add, a process that registers that version of it",
            ),
            None => (
                Thing::Queue(queue.clone()),
                "items are due and nobody takes them",
                "start, or add, a worker that serves it",
            ),
        };
        Self { kind: Kind::Unserved, thing, waits, advice: advice.to_owned() }
    }
}
