//! Stuck workers: each lease that a worker holds is renewed, and none makes progress. That is one
//! problem, of the worker, and not one of each item that it holds.

use std::collections::BTreeMap;

use tidelock_store::{Item, WorkerName};

use super::display::{many, span};
use super::examination::Examination;
use super::finding::{Finding, FindingKind, Findings};
use super::subject::Subject;
use crate::worker::limited_by;

/// A worker with fewer leases may have nothing else to do: then its item hangs, and not the worker.
const LEASES: usize = 2;

/// Subjects that a finding names.
const NAMED: usize = 3;

/// The leases that are renewed, by worker.
#[derive(Debug, Default)]
pub(super) struct HeldLeases {
    workers: BTreeMap<WorkerName, Held>,
}

#[derive(Debug, Default)]
struct Held {
    leases: usize,
    hung: Vec<Finding>,
}

impl HeldLeases {
    /// Counts an item, if it is held. Keeps its finding if it hangs, and returns any other.
    pub(super) fn count(
        &mut self,
        item: &Item,
        finding: Option<Finding>,
        exam: &Examination,
    ) -> Option<Finding> {
        let holder = item.holder.as_ref().filter(|holder| holder.deadline > exam.now);
        let Some(holder) = holder.filter(|_| limited_by(&item.item.queue).is_none()) else {
            return finding;
        };
        let held = self.workers.entry(holder.worker.clone()).or_default();
        held.leases += 1;
        match finding {
            Some(hung) if hung.kind == FindingKind::Hung => {
                held.hung.push(hung);
                None
            }
            other => other,
        }
    }

    pub(super) fn report(self, exam: &Examination, findings: &mut Findings) {
        for (worker, held) in self.workers {
            match held.is_stuck() {
                true => findings.add(held.stuck(worker, exam)),
                false => held.hung.into_iter().for_each(|hung| findings.add(hung)),
            }
        }
    }
}

impl Held {
    fn is_stuck(&self) -> bool {
        self.leases >= LEASES && self.hung.len() == self.leases
    }

    fn stuck(self, worker: WorkerName, exam: &Examination) -> Finding {
        let last = self.hung.iter().filter_map(|hung| hung.since).max();
        let idle =
            last.map_or_else(String::new, |last| format!(" for {}", span(exam.now.since(last))));
        let named: Vec<String> =
            self.hung.iter().take(NAMED).map(|hung| hung.subject.to_string()).collect();
        let others = self.leases - named.len();
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let what = format!(
            "it renews {} and has settled and begun nothing{idle}: {}{others}",
            many(self.leases as u64, "lease"),
            named.join(", ")
        );
        Finding::error(FindingKind::Stuck, Subject::Worker(worker), what).since(last).advice(
            "find out what its handlers wait for (a lock, a pool of connections, a service that does not answer); give them \
             shorter timeouts; or end its process: the leases expire, and other workers continue",
        )
    }
}
