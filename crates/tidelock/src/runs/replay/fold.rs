//! Folds a history, entry by entry. Linear in the length of the history.

use std::collections::HashSet;

use tidelock_store::{Result, StoreError};

use super::cursor::Mark;
use super::operation::{End, Kind, Operation, Phase, operation_of};
use super::{Cancel, Encoded, OpId, Replay};
use crate::runs::history::{Continued, Entry, Resolution, RunOutcome, Signalled};
use crate::runs::keys;
use crate::runs::names::StepName;

impl<T: Encoded> Replay<T> {
    /// Applies the next entry of the history.
    ///
    /// # Errors
    /// Returns an error if the entry contradicts earlier ones, or cannot be decoded.
    pub(crate) fn fold(&mut self, entry: Entry) -> Result<()> {
        self.count_crashes(&entry);
        if let Some(outcome) = entry.outcome() {
            self.outcome = Some(outcome);
            return Ok(());
        }
        match entry {
            Entry::Started(started) => self.input = Some(started.input),
            Entry::Continued(continued) => self.continue_as_new(continued),
            Entry::Retried(_) => self.retry(),
            Entry::Signalled(signal) => self.signal(signal)?,
            Entry::OutOfTime(late) => {
                let reason = format!("its time was up at {}", late.deadline);
                self.cancel.get_or_insert(Cancel { reason, out_of_time: true });
            }
            Entry::Patched(patch) => {
                if patch.taken {
                    self.taken_before.push((patch.name.clone(), self.cursor.order.len()));
                }
                self.patches.insert(patch.name, patch.taken);
            }
            Entry::Won(won) => drop(self.races.insert(won.name, won.branch)),
            Entry::Dropped(dropped) => {
                if let Some(op) = self.names.get(&dropped.name).copied() {
                    self.ops[op].phase = Phase::PastDropped;
                    self.return_signal(op);
                }
            }
            entry => self.fold_operation(&entry)?,
        }
        Ok(())
    }

    fn fold_operation(&mut self, entry: &Entry) -> Result<()> {
        let Some((name, kind, end)) = operation_of(entry) else { return Ok(()) };
        let op = self.recorded_op(name, kind)?;
        self.apply(op, entry);
        if end.is_some() {
            self.ops[op].end = end;
            if self.ops[op].phase == Phase::PastOpen {
                self.ops[op].phase = Phase::PastEnded;
            }
            self.cursor.push(Mark::Ended(op));
        }
        Ok(())
    }

    /// Applies what an entry about an operation says besides its end: the same for an entry that is
    /// read and for one that is queued.
    pub(super) fn apply(&mut self, op: OpId, entry: &Entry) {
        self.ops[op].progress(entry);
        match entry {
            Entry::Intent(intent) => drop(self.resolutions.remove(&intent.name)),
            Entry::Received(received) => self.inbox.receive(&received.id),
            _ => {}
        }
    }

    /// A wait is dropped before it has delivered the signal that it received: another wait receives
    /// it.
    pub(super) fn return_signal(&mut self, op: OpId) {
        let Operation { end, progress, .. } = &self.ops[op];
        if let (Some(End::Received(id)), Some(signal)) = (end, &progress.signal) {
            self.inbox.put_back(signal, id);
        }
    }

    fn recorded_op(&mut self, name: &StepName, kind: Kind) -> Result<OpId> {
        let op = match self.names.get(name) {
            Some(op) => *op,
            None => {
                let op = self.ops.len();
                self.names.insert(name.clone(), op);
                self.ops.push(Operation::new(name, kind, Phase::PastOpen));
                self.cursor.push(Mark::Began(op));
                op
            }
        };
        match self.ops[op].kind {
            there if there == kind => Ok(op),
            there => Err(StoreError::invalid(format!(
                "history has {:?} both as a {there} and as a {kind}",
                name.as_str()
            ))),
        }
    }

    /// Starts a new generation: forgets everything except unreceived signals.
    fn continue_as_new(&mut self, continued: Continued) {
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
        if let Some(op) = failed.and_then(|step| self.names.get(&step).copied()) {
            self.forget_from(op);
        }
    }

    /// Forgets a step, and every operation that was only requested after its end.
    fn forget_from(&mut self, failed: OpId) {
        let order = &mut self.cursor.order;
        let Some(from) = order.iter().position(|mark| *mark == Mark::Ended(failed)) else { return };
        self.taken_before.retain(|(_, at)| *at <= from);
        let of = |mark: &Mark| match mark {
            Mark::Began(op) | Mark::Ended(op) => Some(*op),
            Mark::Void => None,
        };
        let before: HashSet<OpId> = order[..from].iter().filter_map(of).collect();
        let kept = |op: OpId| op != failed && before.contains(&op);
        order.retain(|mark| of(mark).is_some_and(kept));
        self.names.retain(|_, op| kept(*op));
        let forgotten = self.ops.iter_mut().enumerate().filter(|(op, _)| !kept(*op));
        forgotten.for_each(|(_, operation)| operation.phase = Phase::Removed);
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

    fn count_crashes(&mut self, entry: &Entry) {
        match entry {
            Entry::TakenOver(_) => self.crashes += 1,
            Entry::Signalled(_) => {}
            _ => self.crashes = 0,
        }
    }
}
