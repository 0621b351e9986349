//! The workers of a round: started, heard, told to finish, and waited for.
//!
//! Whatever is waited for here is something that a worker says. The scenarios' injuries are the
//! stage's affair.

use std::collections::BTreeMap;
use std::ops::Add;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tidelock::Position;

use crate::broken::Flaw;
use crate::cast::Seat;
use crate::counts::Counts;
use crate::evidence::End;
use crate::failure::Failure;
use crate::part::{Load, WorkerSpec};
use crate::pipe::{Held, Order};
use crate::process::{Heard, Process};
use crate::progress::Progress;
use crate::space::Space;

/// Against hanging only: everything that is waited for comes within a few leases.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Workers<'a> {
    pub(crate) brief: Brief,
    progress: &'a Progress,
    /// Everybody who was ever there, by name.
    processes: BTreeMap<String, Process>,
    /// The pipe on which all of them are heard.
    heard: Receiver<Heard>,
    speak: Sender<Heard>,
}

/// What all workers of a round are told alike.
#[derive(Debug, Clone)]
pub(crate) struct Brief {
    pub(crate) url: String,
    /// Where the journals are.
    pub(crate) folder: PathBuf,
    pub(crate) space: Space,
    pub(crate) start: Position,
    pub(crate) load: Load,
    pub(crate) flaw: Option<Flaw>,
}

impl Brief {
    fn part(&self, seat: Seat, name: &str, seed: u64) -> WorkerSpec {
        WorkerSpec {
            role: seat.1,
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
    pub(crate) fn start(&mut self, seat: Seat, seed: u64) -> Result<(), Failure> {
        let name = format!("{}-{}", seat.0, self.processes.len());
        let part = self.brief.part(seat, &name, seed);
        let process = Process::start(seat, &part, self.speak.clone())?;
        self.processes.insert(name, process);
        Ok(())
    }

    pub(crate) fn get(&mut self, who: &str) -> Option<&mut Process> {
        self.processes.get_mut(who)
    }

    /// Hears what is said until this is so; whether it became so in time.
    pub(crate) fn hear_until(&mut self, end: Instant, is_so: impl Fn(&Self) -> bool) -> bool {
        while !is_so(self) {
            let left = end.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok((who, report)) => {
                    self.get(&who).into_iter().for_each(|process| process.hear(report.clone()));
                    self.progress.show(self.did());
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    /// Hears what is said until this is so, which it should soon be.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> bool {
        self.hear_until(Instant::now() + PATIENCE, is_so)
    }

    /// How much all workers together have done.
    pub(crate) fn did(&self) -> Counts {
        self.processes.values().map(|process| process.did).fold(Counts::default(), Add::add)
    }

    /// Whether every worker has the store open.
    pub(crate) fn is_ready(&self) -> bool {
        self.processes.values().all(|process| process.ready || process.ended)
    }

    pub(crate) fn has_ended(&self, who: &str) -> bool {
        self.processes.get(who).is_none_or(|process| process.ended)
    }

    /// The workers in this seat who are at work.
    pub(crate) fn at_work(&self, seat: &str) -> Vec<String> {
        self.names(|process| process.ready && !process.ended && process.seat.0 == seat)
    }

    pub(crate) fn in_seat(&self, seat: &str) -> Vec<String> {
        self.names(|process| process.seat.0 == seat)
    }

    fn names(&self, is_so: impl Fn(&Process) -> bool) -> Vec<String> {
        let processes = self.processes.iter().filter(|(_, process)| is_so(process));
        processes.map(|(name, _)| name.clone()).collect()
    }

    /// Who was killed.
    pub(crate) fn dead(&self) -> Vec<String> {
        self.names(|process| process.condemned)
    }

    /// Who ever was in a seat but this one.
    pub(crate) fn all_but(&self, seat: &str) -> Vec<String> {
        self.names(|process| process.seat.0 != seat)
    }

    /// A worker that says that it holds something, and waits.
    pub(crate) fn holder(&self) -> Option<(String, Held)> {
        let mut living = self.processes.iter().filter(|(_, process)| !process.ended);
        living.find_map(|(name, process)| Some((name.clone(), process.holding.clone()?)))
    }

    /// Tells the workers in these seats to finish, and waits for them; whether they did.
    pub(crate) fn finish(&mut self, seats: &[&str]) -> bool {
        let meant = |process: &Process| seats.contains(&process.seat.0);
        for process in self.processes.values_mut().filter(|process| meant(process)) {
            process.tell(Order::Finish);
        }
        self.wait_until(|crew| {
            crew.processes.values().all(|process| process.ended || !meant(process))
        })
    }

    /// How everybody ended.
    pub(crate) fn ends(&mut self) -> Result<Vec<(String, End)>, Failure> {
        let mut ends = Vec::new();
        for (name, process) in std::mem::take(&mut self.processes) {
            ends.push((name, process.end()?));
        }
        Ok(ends)
    }
}
