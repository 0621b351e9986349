//! Execution: a decision in progress, with all its attempts.
//!
//! An attempt either shares a commit with other callers of the same aggregate (group commit), or
//! has its own commit: over several streams, with an operation id, a required version, personal
//! data or other parts. Both run in the same retry loop.

use std::convert::Infallible;
use std::sync::Arc;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedVersion, Guard, RecordKey, Result,
    StreamName, StreamState, Version, ViolationReason,
};
use tokio::sync::OwnedMutexGuard;

use super::aggregate::Aggregate;
use super::cached_stream::{CachedStream, DecidedEvents};
use super::error::{ExecuteError, VersionConflict};
use super::executed::{Executed, Provenance};
use super::into_events::IntoEvents;
use super::keys;
use super::operation;
use super::options::Options;
use super::participant::{
    AnyParticipant, IntoDecisions, Participant, ParticipantSet, write_snapshot,
};
use super::rebase::PendingDecision;
use super::submit::ensure_retry_id;
use crate::error::Error;
use crate::group_commit::{Confirmed, Outcome, Submit, View, Waiter};
use crate::handle::Tidelock;
use crate::retry::Attempts;
use crate::telemetry;

pub(crate) struct Execution<'a, S> {
    tidelock: &'a Tidelock,
    options: &'a Options,
    participants: S,
    attempts: Attempts,
    /// Key of the operation's record.
    operation: Option<RecordKey>,
}

/// Result of one attempt.
enum Attempt<R> {
    Done(R),
    /// The store was not as expected.
    Conflict(Conflict),
    /// The state must be compared with the store first, or has changed.
    Retry,
    /// The decision cannot share a commit.
    NeedsOwnCommit,
}

impl<'a, S: ParticipantSet> Execution<'a, S> {
    pub(crate) fn new(
        tidelock: &'a Tidelock,
        options: &'a Options,
        mut participants: S,
    ) -> Result<Self> {
        let operation = match &options.operation {
            Some(operation) => {
                let first = participants.each().into_iter().next();
                first.map(|first| operation::key(operation, first.stream())).transpose()?
            }
            None => None,
        };
        let attempts = options.retry.or(tidelock.retry()).begin();
        Ok(Self { tidelock, options, participants, attempts, operation })
    }

    /// Executes the decision with its own commit.
    pub(crate) async fn execute_alone<D, X>(
        &mut self,
        decide: &mut impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Vec<Executed>, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        loop {
            match self.attempt_alone(decide).await? {
                Attempt::Done(executed) => return Ok(executed),
                Attempt::Conflict(conflict) => self.on_conflict(&conflict).await?,
                Attempt::Retry | Attempt::NeedsOwnCommit => {}
            }
        }
    }

    /// Decides on the current states and returns the parts of the commit instead of sending it.
    pub(crate) async fn propose<D, X>(
        mut self,
        mut decide: impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        self.judge(&mut decide).await
    }

    /// Like [`propose`](Self::propose), for a commit that is made later: a refusal, or a decision
    /// without effect, comes with guards on the states that it rests on.
    pub(crate) async fn propose_guarded<D, X>(
        mut self,
        mut decide: impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Commit, (ExecuteError<X>, Vec<Guard>)>
    where
        S: IntoDecisions<D>,
    {
        match self.judge(&mut decide).await {
            Ok(parts) if parts == Commit::new() => {
                Ok(Commit { guards: self.guards(), ..Commit::new() })
            }
            Ok(parts) => Ok(parts),
            Err(refused @ ExecuteError::Refused(_)) => Err((refused, self.guards())),
            Err(error) => Err((error, Vec::new())),
        }
    }

    async fn judge<D, X>(
        &mut self,
        decide: &mut impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        self.take_turns().await?;
        self.participants.each().iter().for_each(|participant| participant.invalidate());
        self.load_and_decide(decide).await?;
        Ok(self.commit()?.unwrap_or_default())
    }

    /// The states as they were loaded.
    fn guards(&mut self) -> Vec<Guard> {
        let participants = self.participants.each().into_iter();
        participants
            .map(|one| Guard::Stream { stream: one.stream().clone(), expected: one.expected() })
            .collect()
    }

    async fn attempt_alone<D, X>(
        &mut self,
        decide: &mut impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Attempt<Vec<Executed>>, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        self.take_turns().await?;
        if let Some(key) = &self.operation
            && let Some(done) = operation::find(&**self.tidelock.store(), key).await?
        {
            return Ok(Attempt::Done(done));
        }
        let how = self.load_and_decide(decide).await?;
        let Some(commit) = self.commit()? else { return Ok(Attempt::Done(self.unchanged(how))) };
        Ok(match self.tidelock.submit(&commit).await? {
            CommitOutcome::Committed(committed) => {
                Attempt::Done(self.committed(&committed, how).await)
            }
            CommitOutcome::Conflict(conflict) => {
                self.participants.each().into_iter().for_each(AnyParticipant::end_turn);
                Attempt::Conflict(conflict)
            }
        })
    }

    /// Waits for the turns in the order of the stream names, and for the batches before them.
    async fn take_turns<X>(&mut self) -> Result<(), ExecuteError<X>> {
        let deadline = self.attempts.deadline();
        let mut participants = self.participants.each();
        participants.sort_by(|one, other| one.stream().cmp(other.stream()));
        for participant in participants {
            if !participant.take_turn(self.tidelock, deadline).await {
                return Err(ExecuteError::WaitedTooLong { stream: participant.stream().clone() });
            }
        }
        Ok(())
    }

    /// Loads the states and decides. A result without a commit is valid only for states that were
    /// compared with the store; if they were not, it is decided again on states that were.
    async fn load_and_decide<D, X>(
        &mut self,
        decide: &mut impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Provenance, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        loop {
            self.load().await?;
            let rebased: Vec<bool> =
                self.participants.each().into_iter().map(AnyParticipant::rebase).collect();
            if rebased.into_iter().all(|rebased| rebased) {
                return Ok(Provenance::Rebased);
            }
            let refused = match decide(self.participants.states()) {
                Ok(decided) => {
                    self.participants.assign(decided);
                    None
                }
                Err(reason) => Some(reason),
            };
            if refused.is_none() && self.has_effect() {
                return Ok(Provenance::Decided);
            }
            if self.participants.each().iter().all(|participant| participant.is_fresh()) {
                return refused
                    .map_or(Ok(Provenance::Decided), |reason| Err(ExecuteError::Refused(reason)));
            }
            self.participants.each().iter().for_each(|participant| participant.invalidate());
        }
    }

    async fn load<X>(&mut self) -> Result<(), ExecuteError<X>> {
        for participant in self.participants.each() {
            participant.load(self.tidelock).await?;
        }
        self.check_pinned().await
    }

    /// Compares the version that the caller named before deciding on a different one.
    async fn check_pinned<X>(&mut self) -> Result<(), ExecuteError<X>> {
        let Some(expected) = self.options.pinned else { return Ok(()) };
        let Some(participant) = self.participants.each().into_iter().next() else { return Ok(()) };
        if participant.expected() != expected && !participant.is_fresh() {
            participant.invalidate();
            participant.load(self.tidelock).await?;
        }
        match participant.expected() {
            found if found == expected => Ok(()),
            found => {
                let conflict = VersionConflict { expected, found: state_of(found) };
                Err(ExecuteError::Conflict { stream: participant.stream().clone(), conflict })
            }
        }
    }

    fn has_effect(&mut self) -> bool {
        self.operation.is_some()
            || self.options.also.parts() > 0
            || self.participants.each().iter().any(|participant| participant.has_events())
    }

    fn commit(&mut self) -> Result<Option<Commit>> {
        if !self.has_effect() {
            return Ok(None);
        }
        let mut commit = self.options.also.clone();
        let mut records = Vec::new();
        for participant in self.participants.each() {
            commit = participant.add_to(commit, self.options)?;
            records.push(participant.operation_record());
        }
        if let (Some(id), Some(key)) = (&self.options.operation, &self.operation) {
            commit = commit.write(operation::write(id, key, &records)?);
        }
        Ok(Some(ensure_retry_id(commit)))
    }

    fn unchanged(&mut self, how: Provenance) -> Vec<Executed> {
        let attempts = self.attempts.made;
        let participants = self.participants.each().into_iter();
        participants.map(|participant| participant.executed(None, attempts, how)).collect()
    }

    async fn committed(&mut self, committed: &Committed, how: Provenance) -> Vec<Executed> {
        let mut executed = Vec::new();
        for participant in self.participants.each() {
            executed.push(participant.executed(Some(committed), self.attempts.made, how));
        }
        for participant in self.participants.each() {
            participant.write_due_snapshot(self.tidelock).await;
        }
        if executed.iter().any(|executed| executed.how == Provenance::Replayed) {
            self.correct(committed, &executed).await;
        }
        executed
    }

    /// Corrects the operation's record: its events were appended before, at other versions.
    async fn correct(&self, committed: &Committed, executed: &[Executed]) {
        let (Some(id), Some(key)) = (&self.options.operation, &self.operation) else { return };
        let corrected = operation::corrected(id, key, committed, executed);
        let sent = async { self.tidelock.store().commit(Commit::new().write(corrected?)).await };
        if let Err(error) = sent.await {
            tracing::debug!(%error, "an operation is remembered with the versions that were expected");
        }
    }

    /// Waits before the next attempt, if one can succeed.
    async fn on_conflict<X>(&mut self, conflict: &Conflict) -> Result<(), ExecuteError<X>> {
        if self.was_executed_concurrently(conflict) {
            // The next attempt finds the operation's record immediately.
            return Ok(());
        }
        let streams: Vec<StreamName> =
            self.participants.each().iter().map(|one| one.stream().clone()).collect();
        let (stream, last) = moved(conflict, &streams)?;
        if self.options.pinned.is_some() {
            return Err(ExecuteError::Conflict { stream, conflict: last });
        }
        telemetry::contended(&stream, self.attempts.made);
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ExecuteError::GaveUp { stream, attempts: self.attempts.made, last }),
        }
    }

    fn was_executed_concurrently(&self, conflict: &Conflict) -> bool {
        conflict.violations.iter().any(|clash| match &clash.reason {
            ViolationReason::Record { key, .. } => Some(key) == self.operation.as_ref(),
            _ => false,
        })
    }
}

impl<A: Aggregate> Execution<'_, Participant<A>> {
    /// Executes a decision on one aggregate, which shares commits with other callers if it can.
    pub(crate) async fn execute<D: IntoEvents<A::Event>, X>(
        mut self,
        mut decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        while !self.options.needs_own_commit() {
            match self.attempt_shared(&mut decide).await? {
                Attempt::Done(executed) => return Ok(executed),
                Attempt::Conflict(conflict) => self.on_conflict(&conflict).await?,
                Attempt::Retry => {}
                Attempt::NeedsOwnCommit => break,
            }
        }
        let mut executed = self.execute_alone(&mut decide).await?;
        Ok(executed.pop().expect("one stream gives one answer"))
    }

    /// Appends these events with their own commit, whatever the state is.
    pub(crate) async fn append(
        mut self,
        events: Vec<A::Event>,
    ) -> Result<Executed, ExecuteError<Infallible>> {
        self.participants.give(events);
        let executed = self.execute(|_| Ok::<(), Infallible>(())).await?;
        let how = match executed.how {
            Provenance::Rebased => Provenance::Decided,
            how => how,
        };
        Ok(Executed { how, ..executed })
    }

    async fn attempt_shared<D: IntoEvents<A::Event>, X>(
        &mut self,
        decide: &mut impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Attempt<Executed>, ExecuteError<X>> {
        let Self { participants: Participant { entry, pending, .. }, attempts, .. } = self;
        let Some(turn) = entry.turn(|| attempts.deadline()).await else {
            return Err(ExecuteError::WaitedTooLong { stream: entry.key.clone() });
        };
        let view = entry.view_or_read(&**self.tidelock.store()).await?;
        if view.state.is_personal {
            return Ok(Attempt::NeedsOwnCommit);
        }
        let (events, how) = match pending.take().filter(PendingDecision::is_valid) {
            Some(pending) => (pending.events.clone(), Provenance::Rebased),
            None => match decide(&view.state.state) {
                Ok(decided) => (decided.into_events().into(), Provenance::Decided),
                Err(reason) => {
                    let refused = Err(ExecuteError::Refused(reason));
                    return self.confirmed(view, turn, refused).await;
                }
            },
        };
        if events.is_empty() {
            let unchanged = self.executed(view.state.version, how);
            return self.confirmed(view, turn, Ok(unchanged)).await;
        }
        let encoded = self.participants.encode(&events, self.options)?;
        if encoded.is_personal() {
            return Ok(Attempt::NeedsOwnCommit);
        }
        let ids = encoded.events.iter().map(|event| event.id).collect();
        // Tracking starts before the push, so that events of other writers are kept until this
        // caller learns the outcome.
        let entry = &self.participants.entry;
        let tracked = PendingDecision::new(Arc::clone(entry), events.clone(), view.state.committed);
        let pushed = entry.push(&view, DecidedEvents { events, encoded: encoded.events });
        self.participants.pending = Some(tracked);
        let Some((batch, share)) = pushed else { return Ok(Attempt::Retry) };
        drop((turn, view));
        let executed = Executed { events: ids, ..self.executed(None, how) };
        self.landed(&batch, share, executed).await
    }

    /// Returns an answer without a commit once its state is known to be in the store.
    async fn confirmed<X>(
        &self,
        view: View<CachedStream<A>>,
        turn: OwnedMutexGuard<()>,
        answer: Result<Executed, ExecuteError<X>>,
    ) -> Result<Attempt<Executed>, ExecuteError<X>> {
        let batch = match self.participants.entry.confirm(&view) {
            Confirmed::Now => return answer.map(Attempt::Done),
            Confirmed::After(batch) => batch,
            Confirmed::Retry => return Ok(Attempt::Retry),
        };
        drop((turn, view));
        match batch.outcome(self.tidelock).await {
            Outcome::Landed(_) => answer.map(Attempt::Done),
            Outcome::Conflict(conflict) => Ok(Attempt::Conflict(conflict.clone())),
            Outcome::Failed(error) => Err(error.clone().into()),
        }
    }

    /// Waits for the batch with this decision's events.
    async fn landed<X>(
        &self,
        batch: &Waiter<CachedStream<A>>,
        share: u64,
        mut executed: Executed,
    ) -> Result<Attempt<Executed>, ExecuteError<X>> {
        let receipt = match batch.outcome(self.tidelock).await {
            Outcome::Landed(receipt) => receipt,
            Outcome::Conflict(conflict) => return Ok(Attempt::Conflict(conflict.clone())),
            Outcome::Failed(error) => return Err(error.clone().into()),
        };
        (executed.version, executed.position) = (receipt.version(share), receipt.position(share));
        if let Some(folded) = receipt.take_snapshot() {
            write_snapshot(self.tidelock, &executed.stream, &folded).await;
        }
        Ok(Attempt::Done(executed))
    }

    fn executed(&self, version: Option<Version>, how: Provenance) -> Executed {
        Executed {
            stream: self.participants.entry.key.clone(),
            version,
            position: None,
            events: Vec::new(),
            attempts: self.attempts.made,
            how,
        }
    }
}

/// Returns the error of a conflict over personal data of an erased subject, which no other attempt
/// can resolve.
pub(crate) fn erased(conflict: &Conflict) -> Option<Error> {
    match moved::<Infallible>(conflict, &[]) {
        Err(erased @ ExecuteError::SubjectErased { .. }) => Some(erased.into()),
        _ => None,
    }
}

/// Returns the stream that was not at the expected version, or the error of a conflict that no
/// other attempt can resolve.
pub(crate) fn moved<X>(
    conflict: &Conflict,
    streams: &[StreamName],
) -> Result<(StreamName, VersionConflict), ExecuteError<X>> {
    let mut moved = None;
    for clash in &conflict.violations {
        match &clash.reason {
            ViolationReason::Record { key, .. } => {
                if let Some(subject) = keys::erased_subject(key) {
                    return Err(ExecuteError::SubjectErased { subject });
                }
            }
            ViolationReason::Closed { stream, version } if streams.contains(stream) => {
                return Err(ExecuteError::Closed { stream: stream.clone(), version: *version });
            }
            ViolationReason::Stream { stream, expected, found } if streams.contains(stream) => {
                let conflict = VersionConflict { expected: *expected, found: *found };
                moved.get_or_insert_with(|| (stream.clone(), conflict));
            }
            _ => {}
        }
    }
    moved.ok_or_else(|| ExecuteError::Part(conflict.clone()))
}

fn state_of(expected: ExpectedVersion) -> StreamState {
    match expected {
        ExpectedVersion::Exact(version) => StreamState::Open(version),
        _ => StreamState::Absent,
    }
}
