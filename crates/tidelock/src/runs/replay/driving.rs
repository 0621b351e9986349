//! Driving a replay: the verbs of the driver, from the next batch to the end of the activation.

use std::time::Duration;

use tidelock_store::{Result, Timestamp};

use super::transition::Input;
use super::{
    Batch, Cancel, Encoded, End, Exit, Landing, Mismatch, OpId, Phase, Replay, Wake, encode,
};
use crate::runs::history::{Entry, OutOfTime, RunOutcome, Signalled};
use crate::runs::names::StepName;

/// Timers shorter than this are awaited without ending the turn.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// What to do about code that lost something of the history.
const OLD_CODE: &str = "register the old code under the run's version, or branch with \
                        ctx.patched, and the run continues";
/// What to do about code from before a patch.
const NEWER_CODE: &str = "newer code took this patch, and the run continues where code that asks \
                          for it is deployed";
/// Signal ids that a run remembers when it continues as new.
const REMEMBERED_SIGNALS: usize = 1_000;

/// What to do when the function waits and no effect is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IdleAction {
    /// Poll the function again.
    Again,
    Leave(Exit),
    Release,
    Rest,
    /// End the turn until this time, or until the item is woken.
    Suspend(Option<Timestamp>),
}

/// What the failure of a run depends on, besides its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailureContext {
    pub(crate) cancel: Option<Cancel>,
    /// Whether the function has observed the cancellation.
    pub(crate) cancel_seen: bool,
    /// Whether steps were compensated.
    pub(crate) compensated: bool,
    /// The step whose failure is the last recorded result, if any.
    pub(crate) last_failed: Option<StepName>,
}

impl<T: Encoded> Replay<T> {
    /// Ends the loading of the history: the function is replayed against what was folded.
    pub(crate) fn start(&mut self) {
        self.cursor.start(&mut self.ops);
    }

    /// Forgets how the run ended, for a dry run of its function.
    pub(crate) fn reopen(&mut self) -> Option<RunOutcome> {
        self.outcome.take()
    }

    /// Recorded data cannot be decoded as the function's type.
    pub(crate) fn unfit(&mut self, name: &StepName, error: &str) {
        self.mismatch.get_or_insert(Mismatch {
            recorded: Some((name.clone(), true)),
            expected: format!("what is recorded for {:?}", name.as_str()),
            found: format!("a type that it is not: {error}"),
        });
        self.leave(Exit::Park(format!(
            "non-determinism: the code does not fit the history: what is recorded for {:?} cannot be read: {error}",
            name.as_str(),
        )));
    }

    /// Takes the content of the next commit, if a write is wanted.
    pub(crate) fn next_batch(&mut self) -> Option<Batch<T>> {
        if !self.outbox.is_wanted() {
            return None;
        }
        let mut batch = self.outbox.take();
        if let Some(landing) = &mut batch.landing {
            landing.mark = self.mark_committing(landing.op, &landing.source, batch.newest);
        }
        Some(batch)
    }

    /// A batch is durable.
    pub(crate) fn committed(&mut self, batch: &Batch<T>) {
        self.outbox.durable = batch.newest;
        let durable = batch.newest;
        let (ended, ending) = std::mem::take(&mut self.ending)
            .into_iter()
            .partition::<Vec<_>, _>(|(number, _)| *number <= durable);
        self.ending = ending;
        for (_, op) in ended {
            self.shift(op, Input::Durable);
        }
        self.advance();
        self.wake = Wake::All;
    }

    /// The commit of a staged entry failed: the operation is as it was before.
    pub(crate) fn landing_failed(&mut self, landing: &Landing<T>) {
        let op = landing.op;
        self.ending.retain(|(_, ending)| *ending != op);
        self.ops[op].end = None;
        self.ops[op].end_mark = None;
        let mark = landing.mark;
        #[cfg(test)]
        let mark = mark.filter(|_| self.fault != super::model::Fault::NoVoid);
        if let Some(mark) = mark {
            self.cursor.void(mark);
        }
        if self.shift(op, Input::Uncommit { was_open: landing.was_open })
            && self.ops[op].phase == Phase::Removed
        {
            self.names.remove(&self.ops[op].name);
        }
        self.advance();
    }

    /// Takes the entries for the commit that ends the turn.
    pub(crate) fn take_rest(&mut self) -> Vec<T> {
        self.outbox.take_entries()
    }

    /// Puts entries back that were taken and not written.
    pub(crate) fn put_back(&mut self, entries: Vec<T>) {
        self.outbox.put_back(entries);
    }

    /// Whether the pending entries fit into one commit; otherwise they are wanted.
    pub(crate) fn make_room(&mut self) -> bool {
        let fits = self.outbox.is_short();
        if !fits {
            self.outbox.want(self.outbox.newest);
        }
        fits
    }

    /// Applies an entry that another process wrote.
    ///
    /// # Errors
    /// Returns an error if it cannot be decoded.
    pub(crate) fn absorb(&mut self, entry: Entry) -> Result<()> {
        self.fold(entry)?;
        self.wake = Wake::All;
        Ok(())
    }

    /// A time has come. Operations that still wait register again when they are polled.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        self.waits.retain(|_, wait| wait.until.is_none_or(|until| until > now));
        self.wake = Wake::All;
    }

    /// Cancels the run if its deadline has passed.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be stored.
    pub(crate) fn enforce(&mut self, deadline: Option<Timestamp>, now: Timestamp) -> Result<()> {
        match deadline.filter(|deadline| *deadline <= now && self.cancel.is_none()) {
            None => Ok(()),
            Some(deadline) => {
                let entry = Entry::from(OutOfTime { deadline });
                self.outbox.push(encode(&entry)?);
                self.absorb(entry)
            }
        }
    }

    /// The worker is shutting down: no effect begins.
    pub(crate) fn stop(&mut self) {
        if !self.stopping {
            (self.stopping, self.wake) = (true, Wake::All);
        }
    }

    /// A child has ended.
    pub(crate) fn child_ended(&mut self, op: OpId, outcome: RunOutcome) {
        if let Some((_, there)) = self.waits.get_mut(&op).and_then(|wait| wait.child.as_mut()) {
            *there = Some(outcome);
        }
        self.wakes(Wake::One(op));
    }

    /// What to do while the function waits and no effect is in flight.
    pub(crate) fn when_idle(&mut self, deadline: Option<Timestamp>, now: Timestamp) -> IdleAction {
        if let Some(exit) = self.exit.clone() {
            return IdleAction::Leave(exit);
        }
        if self.pass_over() {
            return IdleAction::Again;
        }
        if self.is_replay() {
            return IdleAction::Leave(Exit::Park(self.non_determinism()));
        }
        if self.begin_refused.is_some() {
            return IdleAction::Release;
        }
        if self.waits.is_empty() {
            return match self.orphan() {
                Some(non_determinism) => IdleAction::Leave(Exit::Park(non_determinism)),
                None => IdleAction::Rest,
            };
        }
        match self.next_time(deadline) {
            Some(until) if until <= now.plus(SHORT_WAIT) && !self.stopping => IdleAction::Rest,
            until => IdleAction::Suspend(until),
        }
    }

    /// Passes over an end that could be delivered and that the function does not poll: it has set
    /// the operation aside. Returns whether there was one.
    fn pass_over(&mut self) -> bool {
        let Some((op, true)) = self.cursor.next() else { return false };
        if self.ops[op].phase != Phase::Ended {
            return false;
        }
        #[cfg(test)]
        {
            if self.fault == super::model::Fault::NoPassOver {
                return false;
            }
        }
        self.shift(op, Input::PassOver);
        self.advance();
        self.wake = Wake::All;
        true
    }

    /// An operation that was dropped in an earlier activation and is awaited in this one.
    fn orphan(&mut self) -> Option<String> {
        let orphan = self.ops.iter().find(|op| op.phase == Phase::Orphan)?;
        let (name, described) = (orphan.name.clone(), orphan.describe());
        self.mismatch.get_or_insert(Mismatch {
            recorded: Some((name, true)),
            expected: format!("{described} dropped"),
            found: format!("{described} awaited"),
        });
        Some(format!(
            "non-determinism: the code does not fit the history: {described} was dropped before, and is awaited now"
        ))
    }

    /// Describes the non-determinism: what is recorded next, and the requested operation.
    fn non_determinism(&mut self) -> String {
        let (recorded, expected, advice) = match (self.cursor.next(), self.taken_before.first()) {
            (Some((op, is_end)), _) => {
                let recorded = (self.ops[op].name.clone(), is_end);
                (Some(recorded), self.ops[op].describe(), OLD_CODE)
            }
            (None, Some((patch, _))) => (None, format!("patch {:?}", patch.as_str()), NEWER_CODE),
            (None, None) => (None, "nothing more".to_owned(), OLD_CODE),
        };
        let found =
            self.blocked_on.clone().unwrap_or_else(|| "no operation that can continue".into());
        let error = format!(
            "non-determinism: the code does not fit the history: expected {expected} (recorded), \
             found {found}; {advice}"
        );
        self.mismatch.get_or_insert(Mismatch { recorded, expected, found });
        error
    }

    /// The function has returned: an exit that counts instead of its result, if there is one.
    pub(crate) fn returned(&mut self) -> Option<Exit> {
        if self.exit.is_none() && self.is_replay() {
            self.blocked_on = Some("the end of the workflow".into());
            let error = self.non_determinism();
            self.leave(Exit::Park(error));
        }
        self.exit.clone()
    }

    /// What the failure of the run depends on.
    pub(crate) fn failure_context(&self) -> FailureContext {
        let last = self.cursor.last_end().map(|op| &self.ops[op]);
        let last = last.filter(|op| matches!(op.end, Some(End::Failed(_))));
        FailureContext {
            cancel: self.cancel.clone(),
            cancel_seen: self.cancel_seen,
            compensated: self.compensated,
            last_failed: last.map(|op| op.name.clone()),
        }
    }

    /// The unreceived signals that a new generation begins with, and the ids of others that were
    /// seen.
    pub(crate) fn continued(&self) -> (Vec<Signalled>, Vec<String>) {
        let carried = self.inbox.unreceived();
        let mut seen = self.inbox.newest_seen(REMEMBERED_SIGNALS);
        seen.retain(|id| carried.iter().all(|signal| signal.id != *id));
        (carried, seen)
    }

    /// From now on, dropped operations are dropped by the driver, which is not recorded.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Takes which operations have to be polled again.
    pub(crate) fn take_wake(&mut self) -> Wake {
        std::mem::take(&mut self.wake)
    }
}
