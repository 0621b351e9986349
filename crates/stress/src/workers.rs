//! The workers of a round: started, monitored, told to finish, and awaited.
//!
//! Every wait here is for a report of a worker. Faults are injected by the supervisor.

use std::collections::BTreeMap;
use std::ops::Add;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tidelock::store::Position;

use crate::broken::Flaw;
use crate::counts::Counts;
use crate::evidence::End;
use crate::failure::Failure;
use crate::pipe::{Held, Order};
use crate::plan::WorkerSlot;
use crate::process::{Heard, Process};
use crate::progress::Progress;
use crate::space::Space;
use crate::worker_spec::{Load, WorkerSpec};

/// Only against hanging: everything awaited comes within a few leases.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Workers<'a> {
    pub(crate) brief: Brief,
    progress: &'a Progress,
    /// All processes ever started, by name.
    processes: BTreeMap<String, Process>,
    /// The channel of all reports.
    heard: Receiver<Heard>,
    speak: Sender<Heard>,
}

/// What all workers of a round have in common.
#[derive(Debug, Clone)]
pub(crate) struct Brief {
    pub(crate) url: String,
    /// The folder of the journals.
    pub(crate) folder: PathBuf,
    pub(crate) space: Space,
    pub(crate) start: Position,
    pub(crate) load: Load,
    pub(crate) flaw: Option<Flaw>,
}

impl Brief {
    fn spec(&self, slot: WorkerSlot, name: &str, seed: u64) -> WorkerSpec {
        WorkerSpec {
            role: slot.1,
            name: name.to_owned(),
            url: self.url.clone(),
            journal: self.folder.join(name),
            seed,
            space: self.space.clone(),
            start: self.start,
            load: self.load.clone(),
            flaw: self.flaw,
        }
    }
}

impl<'a> Workers<'a> {
    pub(crate) fn new(brief: Brief, progress: &'a Progress) -> Self {
        let (speak, heard) = mpsc::channel();
        Self { brief, progress, processes: BTreeMap::new(), heard, speak }
    }

    /// Starts a worker.
    pub(crate) fn start(&mut self, slot: WorkerSlot, seed: u64) -> Result<(), Failure> {
        let name = format!("{}-{}", slot.0, self.processes.len());
        let spec = self.brief.spec(slot, &name, seed);
        let process = Process::start(slot, &spec, self.speak.clone())?;
        self.processes.insert(name, process);
        Ok(())
    }

    pub(crate) fn get(&mut self, who: &str) -> Option<&mut Process> {
        self.processes.get_mut(who)
    }

    /// Reads reports until the condition holds; returns whether it did in time.
    pub(crate) fn hear_until(&mut self, end: Instant, is_so: impl Fn(&Self) -> bool) -> bool {
        while !is_so(self) {
            let left = end.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok((who, report)) => {
                    self.get(&who).into_iter().for_each(|process| process.hear(report.clone()));
                    self.progress.show(self.counts());
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    /// Reads reports until the condition holds, which should be soon.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> bool {
        self.hear_until(Instant::now() + PATIENCE, is_so)
    }

    /// The progress of all workers together.
    pub(crate) fn counts(&self) -> Counts {
        self.processes.values().map(|process| process.counts).fold(Counts::default(), Add::add)
    }

    /// Whether every worker has the store open.
    pub(crate) fn is_ready(&self) -> bool {
        self.processes.values().all(|process| process.ready || process.ended)
    }

    pub(crate) fn has_ended(&self, who: &str) -> bool {
        self.processes.get(who).is_none_or(|process| process.ended)
    }

    /// The running workers in this slot.
    pub(crate) fn at_work(&self, slot: &str) -> Vec<String> {
        self.names(|process| process.ready && !process.ended && process.slot.0 == slot)
    }

    pub(crate) fn in_slot(&self, slot: &str) -> Vec<String> {
        self.names(|process| process.slot.0 == slot)
    }

    fn names(&self, is_so: impl Fn(&Process) -> bool) -> Vec<String> {
        let processes = self.processes.iter().filter(|(_, process)| is_so(process));
        processes.map(|(name, _)| name.clone()).collect()
    }

    /// The killed workers.
    pub(crate) fn dead(&self) -> Vec<String> {
        self.names(|process| process.condemned)
    }

    /// All workers outside this slot.
    pub(crate) fn all_but(&self, slot: &str) -> Vec<String> {
        self.names(|process| process.slot.0 != slot)
    }

    /// A worker that reports that it holds something, and waits.
    pub(crate) fn holder(&self) -> Option<(String, Held)> {
        let mut living = self.processes.iter().filter(|(_, process)| !process.ended);
        living.find_map(|(name, process)| Some((name.clone(), process.holding.clone()?)))
    }

    /// Tells the workers in these slots to finish, and waits for them; returns whether they did.
    pub(crate) fn finish(&mut self, slots: &[&str]) -> bool {
        let meant = |process: &Process| slots.contains(&process.slot.0);
        for process in self.processes.values_mut().filter(|process| meant(process)) {
            process.tell(Order::Finish);
        }
        self.wait_until(|workers| {
            workers.processes.values().all(|process| process.ended || !meant(process))
        })
    }

    /// How all workers ended.
    pub(crate) fn ends(&mut self) -> Result<Vec<(String, End)>, Failure> {
        let mut ends = Vec::new();
        for (name, process) in std::mem::take(&mut self.processes) {
            ends.push((name, process.end()?));
        }
        Ok(ends)
    }
}
