//! Replay state: a folded history. It holds the record of each name, the signals, and the order in
//! which results were known.
//!
//! Folding is linear in the length of the history and never accesses the store.

mod inbox;
mod record;

use std::collections::{HashMap, HashSet};

use tidelock_store::{RawJson, Result, StoreError};

use super::history::{Continued, Entry, Resolution, RunOutcome, Signalled, Started, Verdict};
use super::keys;
use super::names::StepName;

pub(crate) use inbox::Inbox;
pub(crate) use record::{End, Kind, Record};

/// A place in the recorded order: the first use of a name, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The index of the record.
    pub(crate) record: usize,
    /// Whether this is the end.
    pub(crate) is_end: bool,
}

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) reason: String,
    pub(crate) out_of_time: bool,
}

/// The folded history of a run.
#[derive(Debug, Default)]
pub(crate) struct ReplayState {
    pub(crate) input: Option<RawJson>,
    /// Metadata of the events that the run causes; `None` if it is in the metadata of the first
    /// event.
    pub(crate) metadata: Option<RawJson>,
    pub(crate) records: Vec<Record>,
    pub(crate) names: HashMap<StepName, usize>,
    pub(crate) order: Vec<Mark>,
    pub(crate) inbox: Inbox,
    pub(crate) cancel: Option<Cancel>,
    /// Recorded sides of code changes.
    pub(crate) patches: HashMap<StepName, bool>,
    /// Winners of races.
    pub(crate) races: HashMap<StepName, usize>,
    /// Verdicts on steps with unknown outcome.
    pub(crate) resolutions: HashMap<StepName, Verdict>,
    /// Consecutive holders that died without recording anything.
    pub(crate) taken_over: u32,
    /// How it ended, unless it was retried.
    pub(crate) outcome: Option<RunOutcome>,
}

impl ReplayState {
    /// Applies the next entry.
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
                (record.intent, record.unknown_outcome) = (true, false);
                Ok(())
            }
            Entry::UnknownOutcome(e) => {
                self.record(&e.name, Kind::Step).map(|record| record.unknown_outcome = true)
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

    /// Starts a new generation: forgets everything except unreceived signals.
    fn begin_again(&mut self, continued: Continued) {
        *self = Self {
            input: Some(continued.input),
            metadata: Some(continued.metadata),
            ..Self::default()
        };
        continued.carried.into_iter().for_each(|signal| self.inbox.put(signal));
        continued.seen.iter().for_each(|id| self.inbox.forget(id));
    }

    /// Forgets the failure that ended the run.
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

    /// Forgets a step, and every operation that was only requested after its end.
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
