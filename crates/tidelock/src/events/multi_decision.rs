//! A decision with its own commit: over several streams, or with other parts in the commit.

use tidelock_store::{
    Commit, CommitOutcome, Conflict, ExpectedVersion, Result, StoreError, StreamName, Violation,
    ViolationReason,
};

use super::error::{ExecuteError, VersionConflict};
use super::executed::{Executed, Provenance};
use super::keys;
use super::operation;
use super::options::{Options, setters};
use super::participant::{AnyParticipant, IntoDecisions, ParticipantSet};
use super::retry::Attempts;
use super::submit::{ensure_retry_id, send};
use crate::handle::Tidelock;
use crate::telemetry;

/// A decision on several aggregates, committed atomically.
///
/// ```
/// # use tidelock::prelude::*;
/// # #[derive(Default, Clone)]
/// # struct Account { balance: i64 }
/// # #[derive(Event)]
/// # enum AccountEvent { PaidIn { cents: i64 }, PaidOut { cents: i64 } }
/// # impl Aggregate for Account {
/// #     const KIND: &'static str = "account";
/// #     type Event = AccountEvent;
/// #     fn apply(&mut self, event: &AccountEvent) {
/// #         match event {
/// #             AccountEvent::PaidIn { cents } => self.balance += cents,
/// #             AccountEvent::PaidOut { cents } => self.balance -= cents,
/// #         }
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let tidelock = Tidelock::open("memory:").await?;
/// let (ada, bob) = (tidelock.aggregate::<Account>("ada"), tidelock.aggregate::<Account>("bob"));
/// ada.execute(|_| Ok::<_, String>(AccountEvent::PaidIn { cents: 500 })).await?;
///
/// let transfer = |cents| {
///     move |(from, _to): (&Account, &Account)| match from.balance >= cents {
///         true => Ok((AccountEvent::PaidOut { cents }, AccountEvent::PaidIn { cents })),
///         false => Err("not enough"),
///     }
/// };
/// tidelock.decide((&ada, &bob)).execute(transfer(300)).await?;
/// let refused = tidelock.decide((&ada, &bob)).execute(transfer(300)).await.unwrap_err();
/// assert_eq!(refused.to_string(), "not enough");
/// assert_eq!((ada.load().await?.balance, bob.load().await?.balance), (200, 300));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before it is executed"]
pub struct MultiDecision<S> {
    tidelock: Tidelock,
    participants: Result<S>,
    options: Options,
}

impl<S: ParticipantSet> MultiDecision<S> {
    pub(crate) fn new(tidelock: Tidelock, participants: Result<S>) -> Self {
        Self { tidelock, participants, options: Options::default() }
    }

    pub(crate) fn with(tidelock: Tidelock, participants: Result<S>, options: Options) -> Self {
        Self { tidelock, participants, options }
    }

    setters!();

    /// Decides on the states of all aggregates and appends the resulting events in one commit.
    ///
    /// A stream without new events is still guarded: it must not have moved either. Otherwise as
    /// [`AggregateRef::execute`](crate::AggregateRef::execute).
    ///
    /// Returns one [`Executed`] per stream, in the order in which they were given.
    ///
    /// # Errors
    /// [`ExecuteError::Refused`] if the decision returned an error; [`ExecuteError::Store`] if no
    /// stream was given, or one of them twice; the other variants tell why nothing was appended.
    pub async fn execute<D, X>(
        self,
        mut decide: impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Vec<Executed>, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        let mut execution = Execution::new(self.tidelock, self.participants?, self.options)?;
        loop {
            execution.lock().await?;
            if let Some(done) = execution.recorded().await? {
                return Ok(done);
            }
            let how = execution.load_and_decide(&mut decide).await?;
            let Some(commit) = execution.commit()? else { return Ok(execution.unchanged(how)) };
            let sent = send(
                &**execution.tidelock.store(),
                &commit,
                execution.tidelock.retry(),
                execution.tidelock.random(),
            );
            match sent.await? {
                CommitOutcome::Committed(committed) => {
                    return Ok(execution.finish(&committed, how).await);
                }
                CommitOutcome::Conflict(conflict) => execution.on_conflict(conflict).await?,
            }
        }
    }

    /// Decides on the current states and returns the parts of the commit instead of sending it. If
    /// the caller's commit conflicts, it decides again.
    pub(crate) async fn propose<D, X>(
        self,
        mut decide: impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        let mut execution = Execution::new(self.tidelock, self.participants?, self.options)?;
        execution.lock().await?;
        execution.participants.each().iter().for_each(|participant| participant.invalidate());
        execution.load_and_decide(&mut decide).await?;
        Ok(execution.commit()?.unwrap_or_default())
    }
}

/// One decision in progress.
struct Execution<S> {
    tidelock: Tidelock,
    participants: S,
    options: Options,
    attempts: Attempts,
    operation: Option<tidelock_store::RecordKey>,
}

impl<S: ParticipantSet> Execution<S> {
    fn new(tidelock: Tidelock, mut participants: S, options: Options) -> Result<Self> {
        let streams: Vec<StreamName> =
            participants.each().iter().map(|participant| participant.stream().clone()).collect();
        let first =
            streams.first().ok_or_else(|| StoreError::invalid("a decision about no streams"))?;
        if let Some(twice) = streams
            .iter()
            .enumerate()
            .find_map(|(at, name)| streams[..at].iter().find(|s| *s == name))
        {
            return Err(StoreError::invalid(format!(
                "stream {twice:?} comes twice in one decision"
            )));
        }
        let operation = options
            .operation
            .as_ref()
            .map(|operation| operation::key(operation, first))
            .transpose()?;
        let attempts = options.retry.unwrap_or(tidelock.retry()).begin();
        Ok(Self { tidelock, participants, options, attempts, operation })
    }

    /// Acquires the decision locks in the order of the stream names.
    async fn lock<X>(&mut self) -> Result<(), ExecuteError<X>> {
        let deadline = self.attempts.deadline();
        let mut participants = self.participants.each();
        participants.sort_by(|one, other| one.stream().cmp(other.stream()));
        for participant in participants {
            if !participant.lock(&self.tidelock, deadline).await {
                return Err(ExecuteError::WaitedTooLong { stream: participant.stream().clone() });
            }
        }
        Ok(())
    }

    async fn recorded(&self) -> Result<Option<Vec<Executed>>> {
        match &self.operation {
            Some(key) => operation::find(&**self.tidelock.store(), key).await,
            None => Ok(None),
        }
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
            let rebased = self
                .participants
                .each()
                .into_iter()
                .map(AnyParticipant::rebase)
                .collect::<Vec<_>>();
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
            participant.load(&self.tidelock).await?;
        }
        self.check_pinned().await
    }

    /// Compares the version that the caller named before deciding on a different one.
    async fn check_pinned<X>(&mut self) -> Result<(), ExecuteError<X>> {
        let Some(expected) = self.options.pinned else { return Ok(()) };
        let Some(participant) = self.participants.each().into_iter().next() else { return Ok(()) };
        if participant.expected() != expected && !participant.is_fresh() {
            participant.invalidate();
            participant.load(&self.tidelock).await?;
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
            commit = participant.add_to(commit, &self.options)?;
            records.push(participant.operation_record());
        }
        if let (Some(id), Some(key)) = (&self.options.operation, &self.operation) {
            commit = commit.write(operation::write(id, key, &records)?);
        }
        Ok(Some(ensure_retry_id(commit)))
    }

    fn unchanged(&mut self, how: Provenance) -> Vec<Executed> {
        let attempts = self.attempts.made;
        let participants =
            self.participants.each().into_iter().map(|participant| participant.operation_record());
        participants
            .map(|record| Executed {
                stream: record.stream,
                version: record.version,
                position: None,
                events: record.events,
                attempts,
                how,
            })
            .collect()
    }

    async fn finish(
        &mut self,
        committed: &tidelock_store::Committed,
        how: Provenance,
    ) -> Vec<Executed> {
        let attempts = self.attempts.made;
        let mut executed: Vec<Executed> = self
            .participants
            .each()
            .into_iter()
            .map(|participant| participant.committed(committed))
            .collect();
        executed
            .iter_mut()
            .for_each(|executed| (executed.attempts, executed.how) = (attempts, how));
        for participant in self.participants.each() {
            participant.write_due_snapshot(&self.tidelock).await;
        }
        executed
    }

    /// Releases the locks and waits, if another attempt can succeed.
    async fn on_conflict<X>(&mut self, conflict: Conflict) -> Result<(), ExecuteError<X>> {
        let streams: Vec<StreamName> = self
            .participants
            .each()
            .iter()
            .map(|participant| participant.stream().clone())
            .collect();
        let retryable = classify(conflict, &streams, self.operation.as_ref())?;
        self.participants.each().into_iter().for_each(AnyParticipant::unlock);
        match retryable {
            // The next attempt finds the operation's record immediately.
            Retryable::Done => Ok(()),
            Retryable::Moved(stream, conflict) if self.options.pinned.is_some() => {
                Err(ExecuteError::Conflict { stream, conflict })
            }
            Retryable::Moved(stream, last) => {
                telemetry::contended(&stream, self.attempts.made);
                match self.attempts.next(self.tidelock.random()).await {
                    true => Ok(()),
                    false => {
                        Err(ExecuteError::GaveUp { stream, attempts: self.attempts.made, last })
                    }
                }
            }
        }
    }
}

/// A conflict that another attempt may resolve.
pub(crate) enum Retryable {
    Moved(StreamName, VersionConflict),
    /// The operation was executed concurrently.
    Done,
}

/// Classifies a conflict for a decision on these streams.
pub(crate) fn classify<X>(
    conflict: Conflict,
    streams: &[StreamName],
    operation: Option<&tidelock_store::RecordKey>,
) -> Result<Retryable, ExecuteError<X>> {
    let reasons = || conflict.violations.iter().map(|clash: &Violation| &clash.reason);
    for reason in reasons() {
        match reason {
            ViolationReason::Record { key, .. } if Some(key) == operation => {
                return Ok(Retryable::Done);
            }
            ViolationReason::Record { key, .. } if keys::erased_subject(key).is_some() => {
                let subject = keys::erased_subject(key).unwrap_or_default();
                return Err(ExecuteError::SubjectErased { subject });
            }
            ViolationReason::Closed { stream, version } if streams.contains(stream) => {
                return Err(ExecuteError::Closed { stream: stream.clone(), version: *version });
            }
            _ => {}
        }
    }
    let moved = reasons().find_map(|reason| match reason {
        ViolationReason::Stream { stream, expected, found } if streams.contains(stream) => {
            Some((stream.clone(), VersionConflict { expected: *expected, found: *found }))
        }
        _ => None,
    });
    match moved {
        Some((stream, conflict)) => Ok(Retryable::Moved(stream, conflict)),
        None => Err(ExecuteError::Part(conflict)),
    }
}

fn state_of(expected: ExpectedVersion) -> tidelock_store::StreamState {
    match expected {
        ExpectedVersion::Exact(version) => tidelock_store::StreamState::Open(version),
        _ => tidelock_store::StreamState::Absent,
    }
}
