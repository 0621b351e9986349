//! Queues with items that are due, and nobody who takes them. One finding for each queue, however many items wait.

use std::collections::BTreeMap;

use tidelock::reactions::{Followed, is_reserved};
use tidelock::runs::run_of;
use tidelock::{Item, QueueName, Timestamp};

use super::exam::Exam;
use super::finding::{Finding, Findings, Kind, Severity};
use crate::output::span;

#[derive(Debug, Default)]
pub(super) struct Unserved {
    queues: BTreeMap<QueueName, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    items: u64,
    since: Timestamp,
    /// The reaction, if its targets are what waits.
    reaction: Option<String>,
}

impl Unserved {
    /// Counts an item that has been due for too long.
    pub(super) fn count(&mut self, item: &Item, exam: &Exam) {
        let reaction = Followed::of(item.clone()).map(|target| target.reaction);
        // Other queues of Tidelock's own have items that are always due, for whoever comes.
        let is_served =
            reaction.is_some() || run_of(&item.item).is_some() || !is_reserved(item.item.queue.as_str());
        let Some(ready) = item.ready_at().filter(|ready| is_served && exam.is_long_ago(*ready)) else {
            return;
        };
        let waiting = self.queues.entry(item.item.queue.clone()).or_insert(Waiting {
            items: 0,
            since: ready,
            reaction,
        });
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
        let (thing, noun, mend) = match self.reaction {
            Some(reaction) => {
                let mend = format!(
                    "start, or add, a process that registers reaction {reaction:?} and serves its lanes"
                );
                (format!("reaction {reaction:?}"), "targets", mend)
            }
            None => {
                (format!("queue {queue:?}"), "items", "start, or add, a worker that serves it".to_owned())
            }
        };
        let (items, oldest) = (self.items, span(exam.now.since(self.since)));
        Finding {
            kind: Kind::Unserved,
            severity: Severity::Sick,
            thing,
            since: Some(self.since),
            what: format!("{items} {noun} are due and nobody takes them, the first for {oldest}"),
            mend: Some(mend),
        }
    }
}
