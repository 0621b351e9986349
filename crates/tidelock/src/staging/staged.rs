//! Staged parts, and the attempts to commit them.

use std::time::Duration;

use tidelock_store::{
    Change, Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, Guard, Part, RecordKey,
    RecordWrite, Result, Settlement, Store, StreamName, ViolationKind,
};

use super::commit_via::{CommitVia, Sender, ViaOutcome, kept};
use super::decision::{Decision, add_append};
use super::landing::Landing;
use super::merge;
use crate::events;
use crate::handler_error::HandlerError;
use crate::worker::{LeasedTask, TaskOutcome};

/// How often decisions are taken again before the handler runs again.
pub(crate) const DECISION_ATTEMPTS: usize = 20;

/// Parts of a commit, and decisions whose events are part of it.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) commit: Commit,
    pub(crate) decisions: Vec<Decision>,
    /// Records that prove that a lock or claim is still held.
    pub(crate) fenced: Vec<RecordKey>,
    /// Records whose staged writes follow from a value that was read.
    pub(crate) derived: Vec<RecordKey>,
    /// Told when the commit has landed.
    pub(crate) landings: Vec<Landing>,
    /// Committed, each by itself, if the parts never land.
    pub(crate) unless: Vec<Commit>,
    pub(crate) via: CommitVia,
}

/// The outcome of landing staged parts with a settlement.
#[derive(Debug)]
pub(crate) enum Landed {
    /// It has landed, or the lease was lost and it never will.
    Settled(TaskOutcome),
    /// A part did not hold: the handler has to run again.
    Refused(HandlerError),
}

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It has landed.
    Landed(Committed),
    /// A lease is lost, and nothing was written.
    Lost(Conflict),
    /// A part of the caller did not hold.
    Moved(Conflict),
    /// A decision was stale, and has been taken again.
    Stale,
    /// A staged part did not hold: the code that staged it has to run again.
    Refused(HandlerError),
}

/// Which group of parts did not hold, the one that decides first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blame {
    Lease,
    Own,
    Staged,
    Decisions,
}

impl Staged {
    /// Whether there is nothing to commit: nothing was staged, or all that was decided is already
    /// so.
    pub(crate) fn is_empty(&self) -> bool {
        self.commit.parts() == 0
            && self.via.is_store()
            && self.assemble(&Commit::new()).parts() == 0
    }

    /// Adds these parts to the staged ones.
    pub(crate) fn join(&mut self, parts: Commit) {
        join(&mut self.commit, parts);
    }

    /// Adds parts as they are: later events of a stream follow the earlier ones, a later write to a
    /// record takes the place of the earlier one, and additions to a counter add up.
    pub(crate) fn stage(&mut self, parts: Commit) -> Result<()> {
        let Commit { appends, writes, .. } = parts;
        merge::stage(&mut self.commit.writes, writes)?;
        appends.into_iter().for_each(|append| add_append(&mut self.commit, append));
        self.join(Commit { appends: Vec::new(), writes: Vec::new(), ..parts });
        Ok(())
    }

    /// Adds parts that follow from a value that was read: when one of them fails, the code that
    /// read the value has to run again.
    pub(crate) fn derive(&mut self, parts: Commit) {
        self.derived.extend(parts.writes.iter().map(|write| write.key.clone()));
        self.join(parts);
    }

    /// Requires that what was read has not changed.
    pub(crate) fn pin(&mut self, guards: impl IntoIterator<Item = Guard>) {
        for guard in guards {
            if self.commit.guards.contains(&guard) || self.pin_write(&guard) {
                continue;
            }
            self.commit.guards.push(guard);
        }
    }

    /// A staged write without an expectation gets that of the guard.
    fn pin_write(&mut self, guard: &Guard) -> bool {
        let Guard::Record { key, expected } = guard else { return false };
        let unpinned =
            |write: &&mut RecordWrite| write.key == *key && write.expected == ExpectedRevision::Any;
        let Some(write) = self.commit.writes.iter_mut().find(unpinned) else { return false };
        write.expected = *expected;
        self.derived.push(key.clone());
        true
    }

    /// The staged write to this record.
    pub(crate) fn writes_to(&self, key: &RecordKey) -> Option<&RecordWrite> {
        self.commit.writes.iter().find(|write| write.key == *key)
    }

    /// Stages parts whose writes take the place of earlier ones to the same records.
    pub(crate) fn replace(&mut self, parts: Commit) {
        self.commit.writes.retain(|there| parts.writes.iter().all(|write| write.key != there.key));
        self.derive(parts);
    }

    /// Takes back the write to the record of this guard.
    pub(crate) fn unstage(&mut self, guard: &Guard) {
        if let Guard::Record { key, .. } = guard {
            self.commit.writes.retain(|write| write.key != *key);
        }
    }

    /// The sum of the staged additions to this counter.
    pub(crate) fn added_to(&self, counter: &RecordKey) -> i64 {
        match self.writes_to(counter).map(|write| &write.change) {
            Some(Change::Add { delta, .. }) => *delta,
            _ => 0,
        }
    }

    /// The cost of the staged draws on this rate limit.
    pub(crate) fn drawn_from(&self, rate: &RecordKey) -> Duration {
        match self.writes_to(rate).map(|write| &write.change) {
            Some(Change::Rate(rate)) => rate.cost,
            _ => Duration::ZERO,
        }
    }

    /// Stages a draw on a rate limit, which follows from the units that were available.
    pub(crate) fn draw(&mut self, write: RecordWrite) -> Result<()> {
        self.derived.push(write.key.clone());
        merge::stage(&mut self.commit.writes, vec![write])
    }

    /// Stages an addition to a counter, with its guard. An addition to the same counter becomes
    /// part of the earlier one, under the earlier guard.
    pub(crate) fn add(&mut self, counter: &RecordKey, parts: Commit) {
        let earlier = self.commit.writes.iter_mut().find(|write| write.key == *counter);
        let Some(Change::Add { delta, within, .. }) = earlier.map(|write| &mut write.change) else {
            return self.derive(parts);
        };
        for write in parts.writes {
            if let Change::Add { delta: more, within: limit, .. } = write.change {
                *delta = delta.saturating_add(more);
                let raised = within.max.map(|max| max.saturating_add(more));
                within.max = raised.into_iter().chain(limit.max).min();
            }
        }
    }

    /// Whether a decision about this stream is staged.
    pub(crate) fn decides_on(&self, stream: &StreamName) -> bool {
        self.decisions.iter().any(|decision| decision.is_about(stream))
    }

    /// Lands it with this settlement. Stale decisions are taken again, without the handler.
    pub(crate) async fn land(
        mut self,
        task: &LeasedTask,
        settlement: Settlement,
    ) -> Result<Landed> {
        let settled = TaskOutcome::by(&settlement.exit);
        let own = Commit::new().settle(settlement);
        for attempts in 1..=DECISION_ATTEMPTS {
            match self.attempt(Sender::Task(task), &own, attempts).await? {
                Tried::Landed(_) => return Ok(Landed::Settled(settled)),
                Tried::Lost(_) => return Ok(Landed::Settled(TaskOutcome::Lost)),
                Tried::Refused(failure) => return Ok(self.refused(task, failure).await),
                Tried::Moved(conflict) => {
                    return Ok(self.refused(task, HandlerError::again(conflict)).await);
                }
                Tried::Stale => {}
            }
        }
        Ok(self.refused(task, too_slow()).await)
    }

    async fn refused(self, task: &LeasedTask, failure: HandlerError) -> Landed {
        self.give_up(&**task.store()).await;
        Landed::Refused(failure)
    }

    /// Takes back what was prepared for parts that never land.
    pub(crate) async fn give_up(self, store: &dyn Store) {
        for commit in self.unless {
            if let Err(error) = store.commit(commit).await {
                tracing::debug!(%error, "what a refused commit had prepared is left");
            }
        }
    }

    /// Tries once to land it with these parts of the caller.
    pub(crate) async fn attempt(
        &mut self,
        sender: Sender<'_>,
        own: &Commit,
        attempts: usize,
    ) -> Result<Tried> {
        let commit = self.assemble(own);
        if let Err(error) = commit.check() {
            return Ok(Tried::Refused(HandlerError::fatal(error)));
        }
        if self.via.is_kept() {
            return Ok(Tried::Refused(HandlerError::fatal(kept())));
        }
        let conflict = match self.via.commit(sender, commit).await? {
            ViaOutcome::Store(CommitOutcome::Committed(committed)) => {
                // In the caller's transaction it has not landed yet.
                if sender.is_final() {
                    self.landed().await;
                }
                return Ok(Tried::Landed(committed));
            }
            ViaOutcome::Store(CommitOutcome::Conflict(conflict)) => conflict,
            #[cfg(feature = "sqlite")]
            ViaOutcome::RowsChanged { sql } => {
                let why = format!("the rows of {sql:?} have changed since they were read");
                return Ok(Tried::Refused(HandlerError::again(why)));
            }
        };
        if let Some(erased) = events::erased(&conflict) {
            return Ok(Tried::Refused(HandlerError::fatal(erased)));
        }
        Ok(match self.blame(own, &conflict) {
            Blame::Lease => Tried::Lost(conflict),
            Blame::Own => Tried::Moved(conflict),
            Blame::Staged => Tried::Refused(HandlerError::again(conflict)),
            // However often it is taken again, a closed stream takes nothing.
            Blame::Decisions if conflict.has(ViolationKind::Closed) => {
                Tried::Refused(HandlerError::again(conflict))
            }
            Blame::Decisions => {
                sender.contended(&conflict, attempts);
                match self.decide_again().await {
                    Ok(()) => Tried::Stale,
                    Err(failure) => Tried::Refused(failure),
                }
            }
        })
    }

    /// What follows the commit: grants can be refunded, and snapshots that are due are written.
    async fn landed(&self) {
        self.landings.iter().for_each(Landing::landed);
        for decision in &self.decisions {
            decision.landed().await;
        }
    }

    /// Whether only parts that were staged as they are did not hold: running the same code again
    /// cannot help.
    pub(crate) fn is_final(&self, conflict: &Conflict) -> bool {
        conflict.violations.iter().all(|violation| match violation.part {
            Part::Append(at) => at < self.commit.appends.len(),
            Part::Write(at) => {
                let write = self.commit.writes.get(at);
                write.is_some_and(|write| !self.derived.contains(&write.key))
            }
            _ => false,
        })
    }

    /// Whether the same can be tried again after a conflict.
    pub(crate) fn can_be_tried_again(&self) -> bool {
        self.via.can_be_tried_again()
    }

    /// The caller's parts first, then the staged ones, then the decisions'.
    fn assemble(&self, own: &Commit) -> Commit {
        let mut commit = own.clone();
        join(&mut commit, self.commit.clone());
        self.decisions.iter().for_each(|decision| decision.add_to(&mut commit));
        commit
    }

    /// Which group of parts did not hold.
    fn blame(&self, own: &Commit, conflict: &Conflict) -> Blame {
        if conflict.has(ViolationKind::LeaseLost) {
            return Blame::Lease;
        }
        let blame = |part: Part| {
            let (at, own, staged) = match part {
                Part::Append(at) => (at, own.appends.len(), self.commit.appends.len()),
                Part::Write(at) => (at, own.writes.len(), self.commit.writes.len()),
                Part::Guard(at) => (at, own.guards.len(), self.commit.guards.len()),
                Part::Trim(at) => (at, own.trims.len(), self.commit.trims.len()),
                Part::Restore(at) => (at, own.restores.len(), self.commit.restores.len()),
                Part::Settlement(_) | Part::Fence(_) => return Blame::Own,
            };
            match at {
                at if at < own => Blame::Own,
                at if at < own + staged => Blame::Staged,
                _ if self.via.can_be_tried_again() => Blame::Decisions,
                _ => Blame::Staged,
            }
        };
        conflict.violations.iter().map(|clash| blame(clash.part)).min().unwrap_or(Blame::Staged)
    }

    async fn decide_again(&mut self) -> Result<(), HandlerError> {
        for decision in &mut self.decisions {
            decision.again().await?;
        }
        Ok(())
    }
}

/// Concurrent writers won every attempt.
pub(crate) fn too_slow() -> HandlerError {
    HandlerError::again("others were quicker every time that the decision was taken")
}

/// Adds the parts of another commit; its id is not used.
pub(crate) fn join(commit: &mut Commit, other: Commit) {
    let Commit {
        appends,
        writes,
        wakes,
        settlements,
        fences,
        guards,
        trims,
        restores,
        id: _,
        id_memory: _,
    } = other;
    commit.appends.extend(appends);
    commit.writes.extend(writes);
    commit.wakes.extend(wakes);
    commit.settlements.extend(settlements);
    commit.fences.extend(fences);
    commit.guards.extend(guards);
    commit.trims.extend(trims);
    commit.restores.extend(restores);
}
