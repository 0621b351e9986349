//! A history, folded: what was recorded under each name, which signals came, and in what order
//! things were known.
//!
//! Linear in the length of the history, and nothing but memory: no store is asked here.

mod inbox;
mod record;

use std::collections::{HashMap, HashSet};

use tidelock_store::{RawJson, Result, StoreError};

use super::history::{Continued, Entry, Resolution, RunOutcome, Signalled, Started, Verdict};
use super::keys;
use super::names::StepName;

pub(crate) use inbox::Inbox;
pub(crate) use record::{End, Kind, Record};

/// A place in the order of what was known: a name was used, or its end was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which record.
    pub(crate) record: usize,
    /// Its end, or its beginning.
    pub(crate) is_end: bool,
}

/// Why a run is to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) reason: String,
    pub(crate) out_of_time: bool,
}

/// All that a run's history says.
#[derive(Debug, Default)]
pub(crate) struct ReplayState {
    pub(crate) input: Option<RawJson>,
    /// What events say that the run leads to; none if that is in the metadata of the first event.
    pub(crate) metadata: Option<RawJson>,
    pub(crate) records: Vec<Record>,
    pub(crate) names: HashMap<StepName, usize>,
    pub(crate) order: Vec<Mark>,
    pub(crate) inbox: Inbox,
    pub(crate) cancel: Option<Cancel>,
    /// Which side of a change of code the run is on, where it has been asked.
    pub(crate) patches: HashMap<StepName, bool>,
    /// Who won.
    pub(crate) races: HashMap<StepName, usize>,
    /// What operators said about ambiguous steps.
    pub(crate) resolutions: HashMap<StepName, Verdict>,
    /// How often in a row a holder died without recording anything.
    pub(crate) taken_over: u32,
    /// It has ended, and was not retried.
    pub(crate) outcome: Option<RunOutcome>,
}

impl ReplayState {
    /// Takes in the next entry.
    pub(crate) fn take(&mut self, entry: Entry) -> Result<()> {
        self.count_deaths(&entry);
        if let Some(outcome) = entry.outcome() {
            self.outcome = Some(outcome);
            return Ok(());
        }
        match entry {
            Entry::Started(started) => self.begin(started),
            Entry::Continued(continued) => self.begin_again(continued),
            Entry::Retried(_) => self.retry(),
            Entry::Signalled(signal) => self.signal(signal)?,
            Entry::OutOfTime(late) => {
                let reason = format!("its time was up at {}", late.deadline);
                self.cancel.get_or_insert(Cancel { reason, out_of_time: true });
            }
            Entry::Patched(patch) => drop(self.patches.insert(patch.name, patch.taken)),
            Entry::Won(won) => drop(self.races.insert(won.name, won.branch)),
            entry => self.operation(entry)?,
        }
        Ok(())
    }

    fn operation(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::StepDone(e) => self.end(&e.name, Kind::Step, End::Done(e.result)),
            Entry::Published(e) => self.end(&e.name, Kind::Status, End::Done(e.status)),
            Entry::StepFailed(e) => self.end(&e.name.clone(), Kind::Step, End::Failed(e)),
            Entry::AttemptFailed(e) => {
                let record = self.record(&e.name, Kind::Step)?;
                (record.attempts, record.again_at, record.intent) =
                    (e.attempt, Some(e.again_at), false);
                Ok(())
            }
            Entry::Intent(e) => {
                self.resolutions.remove(&e.name);
                let record = self.record(&e.name, Kind::Step)?;
                (record.intent, record.ambiguous) = (true, false);
                Ok(())
            }
            Entry::Ambiguous(e) => {
                self.record(&e.name, Kind::Step).map(|record| record.ambiguous = true)
            }
            Entry::Timer(e) => {
                self.record(&e.name, Kind::Sleep).map(|record| record.until = Some(e.until))
            }
            Entry::Fired(e) => self.end(&e.name, Kind::Sleep, End::Fired),
            Entry::Waiting(e) => self.record(&e.name, Kind::Wait).map(|record| {
                (record.until, record.signal) = (e.until, Some(e.signal));
            }),
            Entry::Received(e) => {
                self.inbox.receive(&e.id);
                self.end(&e.name, Kind::Wait, End::Received(e.id))
            }
            Entry::TimedOut(e) => self.end(&e.name, Kind::Wait, End::TimedOut),
            Entry::ChildStarted(e) => self.record(&e.name, Kind::Child).map(drop),
            Entry::ChildEnded(e) => self.end(&e.name, Kind::Child, End::Child(e.outcome)),
            Entry::Value(e) => self.end(&e.name, Kind::Value, End::Done(e.value)),
            Entry::Interrupted(e) => self.end(&e.name, e.kind.into(), End::Interrupted),
            Entry::Dropped(e) => self.drop_record(&e.name),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, started: Started) {
        self.input = Some(started.input);
    }

    /// Nothing that was recorded before counts any more; signals that nobody received do.
    fn begin_again(&mut self, continued: Continued) {
        *self = Self {
            input: Some(continued.input),
            metadata: Some(continued.metadata),
            ..Self::default()
        };
        continued.carried.into_iter().for_each(|signal| self.inbox.put(signal));
        continued.seen.iter().for_each(|id| self.inbox.forget(id));
    }

    /// The failure that ended the run is as if it had never been.
    fn retry(&mut self) {
        let failed = match self.outcome.take() {
            Some(RunOutcome::Failed(failure)) => failure.step,
            _ => None,
        };
        self.cancel = None;
        if let Some(at) = failed.and_then(|step| self.names.get(&step).copied()) {
            self.forget_from(at);
        }
    }

    /// A step, and whatever was only asked for after its end, is as if it had never been.
    fn forget_from(&mut self, at: usize) {
        let end = Mark { record: at, is_end: true };
        let Some(from) = self.order.iter().position(|mark| *mark == end) else { return };
        let before: HashSet<usize> = self.order[..from].iter().map(|mark| mark.record).collect();
        let kept = |record: usize| record != at && before.contains(&record);
        self.order.retain(|mark| kept(mark.record));
        self.names.retain(|_, record| kept(*record));
    }

    fn signal(&mut self, signal: Signalled) -> Result<()> {
        match signal.signal.as_str() {
            keys::CANCEL => {
                let reason = signal.payload.to::<String>().unwrap_or_default();
                self.cancel.get_or_insert(Cancel { reason, out_of_time: false });
            }
            keys::RESOLVE => {
                let Resolution { step, verdict } = signal.payload.to()?;
                self.resolutions.insert(step, verdict);
            }
            _ => self.inbox.put(signal),
        }
        Ok(())
    }

    fn count_deaths(&mut self, entry: &Entry) {
        match entry {
            Entry::TakenOver(_) => self.taken_over += 1,
            Entry::Signalled(_) => {}
            _ => self.taken_over = 0,
        }
    }

    fn record(&mut self, name: &StepName, kind: Kind) -> Result<&mut Record> {
        let at = match self.names.get(name) {
            Some(at) => *at,
            None => {
                let at = self.records.len();
                self.names.insert(name.clone(), at);
                self.records.push(Record::new(name, kind));
                self.order.push(Mark { record: at, is_end: false });
                at
            }
        };
        let record = &mut self.records[at];
        match record.kind == kind {
            true => Ok(record),
            false => Err(StoreError::invalid(format!(
                "history has {:?} both as a {} and as a {kind}",
                name.as_str(),
                record.kind
            ))),
        }
    }

    fn end(&mut self, name: &StepName, kind: Kind, end: End) -> Result<()> {
        self.record(name, kind)?.end = Some(end);
        let record = self.names[name];
        self.order.push(Mark { record, is_end: true });
        Ok(())
    }

    fn drop_record(&mut self, name: &StepName) -> Result<()> {
        if let Some(at) = self.names.get(name) {
            self.records[*at].dropped = true;
        }
        Ok(())
    }
}
