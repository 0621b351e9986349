//! A decision on one aggregate.

use std::sync::Arc;

use tidelock_store::{
    Commit, CommitOutcome, EventId, ExpectedVersion, Result, StoreError, StreamName, Version,
};

use super::aggregate::Aggregate;
use super::aggregate_ref::AggregateRef;
use super::encoded::Encoded;
use super::error::{ExecuteError, VersionConflict};
use super::executed::{Executed, Provenance};
use super::group_commit::{Batch, Outcome, PendingDecision, Share, View};
use super::into_events::IntoEvents;
use super::multi_decision::{MultiDecision, Retryable, classify};
use super::options::{Options, setters};
use super::participant::{Participant, write_snapshot};
use super::state_cache::CacheEntry;
use super::submit::{ensure_retry_id, send};
use crate::handle::Tidelock;
use crate::telemetry;

/// A decision on one aggregate, with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is executed"]
pub struct Decision<A> {
    target: AggregateRef<A>,
    options: Options,
    ids: Vec<EventId>,
}

impl<A: Aggregate> Decision<A> {
    pub(crate) fn new(target: AggregateRef<A>) -> Self {
        Self { target, options: Options::default(), ids: Vec::new() }
    }

    setters!();

    /// Requires the aggregate to be at this version.
    ///
    /// At any other version the decision returns a [conflict](ExecuteError::Conflict) and is not
    /// retried: the caller has to load the state again.
    pub fn at_version(mut self, version: Version) -> Self {
        self.options.pinned = Some(ExpectedVersion::Exact(version));
        self
    }

    /// Requires that the aggregate does not exist yet.
    ///
    /// Otherwise the decision returns a [conflict](ExecuteError::Conflict), as for
    /// [`at_version`](Self::at_version).
    pub fn new_only(mut self) -> Self {
        self.options.pinned = Some(ExpectedVersion::NoStream);
        self
    }

    /// Sets the ids of the events to [append](Self::append), one per event.
    pub fn event_ids(mut self, ids: impl IntoIterator<Item = EventId>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }

    /// Decides and appends the resulting events: see [`AggregateRef::execute`].
    ///
    /// # Errors
    /// [`ExecuteError::Refused`] if the decision returned an error; the other variants tell why
    /// nothing was appended.
    pub async fn execute<D: IntoEvents<A::Event>, X>(
        self,
        mut decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        if !self.options.needs_own_commit() {
            let entry = self.tidelock().lines().entry(self.target.stream()?);
            let attempts = self.options.retry.unwrap_or(self.tidelock().retry()).begin();
            let queued = Queued {
                tidelock: self.tidelock(),
                options: &self.options,
                entry: &entry,
                attempts,
            };
            if let Some(executed) = queued.execute(&mut decide).await? {
                return Ok(executed);
            }
        }
        let mut executed = self.with_own_commit().execute(decide).await?;
        Ok(executed.pop().expect("one stream gives one answer"))
    }

    /// Appends events without loading the state, if the stream is as expected.
    ///
    /// With [event ids](Self::event_ids) the call is idempotent: if the events exist already, it
    /// returns the original result.
    ///
    /// # Errors
    /// [`ExecuteError::Conflict`] if the stream is not as expected; [`ExecuteError::Store`] if the
    /// number of event ids does not match the events, or the store failed.
    pub async fn append(
        self,
        expected: ExpectedVersion,
        events: impl IntoEvents<A::Event>,
    ) -> Result<Executed, ExecuteError<std::convert::Infallible>> {
        let (stream, events) = (self.target.stream()?.clone(), events.into_events());
        let encoded = self.encode(&events)?;
        let ids = encoded.events.iter().map(|event| event.id).collect();
        let commit =
            ensure_retry_id(encoded.add_to(self.options.also.clone(), &stream, expected)?);
        let tidelock = self.tidelock();
        match send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await? {
            CommitOutcome::Committed(committed) => {
                let appended = committed.appends.iter().find(|appended| appended.stream == stream);
                Ok(Executed {
                    version: appended.map(|appended| appended.version),
                    position: appended.and_then(|appended| Some(appended.positions?.1)),
                    events: ids,
                    attempts: 1,
                    how: if appended.is_some_and(|a| a.replayed) {
                        Provenance::Replayed
                    } else {
                        Provenance::Decided
                    },
                    stream,
                })
            }
            CommitOutcome::Conflict(conflict) => {
                Err(match classify(conflict, std::slice::from_ref(&stream), None)? {
                    Retryable::Moved(stream, conflict) => {
                        ExecuteError::Conflict { stream, conflict }
                    }
                    Retryable::Done => unreachable!("there is no operation to be done"),
                })
            }
        }
    }

    /// Decides on the current state and returns the parts of the commit instead of sending it.
    ///
    /// The caller merges them into its own commit. If that commit conflicts, call this again.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn propose<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>> {
        self.with_own_commit().propose(decide).await
    }

    /// The parts of a commit that append these events, whatever the state.
    pub(crate) fn parts(self, events: impl IntoEvents<A::Event>) -> Result<Commit> {
        let stream = self.target.stream()?.clone();
        let encoded = self.encode(&events.into_events())?;
        encoded.add_to(self.options.also, &stream, ExpectedVersion::Any)
    }

    fn encode(&self, events: &[A::Event]) -> Result<Encoded> {
        let encoded = if self.ids.is_empty() {
            Encoded::fresh(events, &self.options.metadata)
        } else if self.ids.len() == events.len() {
            Encoded::with_ids(events, &self.options.metadata, |at| self.ids[at])
        } else {
            Err(StoreError::invalid(format!(
                "{} event ids for {} events",
                self.ids.len(),
                events.len()
            )))
        };
        encoded.map_err(|e| e.about(format_args!("stream {:?}", self.target.stream())))
    }

    fn with_own_commit(&self) -> MultiDecision<Participant<A>> {
        MultiDecision::with(
            self.tidelock().clone(),
            self.target.participant(),
            self.options.clone(),
        )
    }

    fn tidelock(&self) -> &Tidelock {
        self.target.tidelock()
    }
}

/// A decision that is queued with others and shares their commits.
struct Queued<'a, A: Aggregate> {
    tidelock: &'a Tidelock,
    options: &'a Options,
    entry: &'a CacheEntry<A>,
    attempts: super::retry::Attempts,
}

/// Result of one attempt.
enum Attempt<A: Aggregate, X> {
    /// The events are in a batch.
    Batched { share: Share<A>, decided: PendingDecision<A>, version: Version, how: Provenance },
    /// Nothing to append. The answer is valid once the earlier decisions are committed.
    NoEvents { answer: Result<Executed, ExecuteError<X>>, after: Option<Arc<Batch<A>>> },
    /// The state must be compared with the store first, or has changed.
    Retry(Option<PendingDecision<A>>),
    /// The decision needs its own commit.
    NeedsOwnCommit,
}

impl<A: Aggregate> Queued<'_, A> {
    async fn execute<D: IntoEvents<A::Event>, X>(
        mut self,
        decide: &mut impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Option<Executed>, ExecuteError<X>> {
        let mut pending = None;
        loop {
            let conflict = match self.attempt(decide, pending.take()).await? {
                Attempt::NeedsOwnCommit => return Ok(None),
                Attempt::Retry(decided) => {
                    pending = decided;
                    continue;
                }
                Attempt::NoEvents { answer, after } => match self.wait_for(after).await? {
                    None => return answer.map(Some),
                    Some(conflict) => conflict,
                },
                Attempt::Batched { share, decided, version, how } => {
                    let outcome = share.batch.outcome(self.entry, self.tidelock).await;
                    let Some(conflict) = self.classify(outcome)? else {
                        return Ok(Some(self.executed(&share, version, outcome, how).await));
                    };
                    pending = Some(decided);
                    conflict
                }
            };
            self.back_off(conflict).await?;
        }
    }

    async fn attempt<D: IntoEvents<A::Event>, X>(
        &mut self,
        decide: &mut impl FnMut(&A) -> Result<D, X>,
        pending: Option<PendingDecision<A>>,
    ) -> Result<Attempt<A, X>, ExecuteError<X>> {
        let (entry, attempts) = (self.entry, &mut self.attempts);
        let Some(_lock) = entry.acquire(|| attempts.deadline()).await else {
            return Err(ExecuteError::WaitedTooLong { stream: entry.stream.clone() });
        };
        let view = entry.view(&**self.tidelock.store()).await?;
        if view.is_personal {
            return Ok(Attempt::NeedsOwnCommit);
        }
        if let Some(pending) = pending.filter(PendingDecision::is_valid) {
            return self.add_to_batch(&view, pending.events.clone(), Provenance::Rebased);
        }
        match decide(&view.state) {
            Err(reason) => Ok(self.no_events(&view, Err(ExecuteError::Refused(reason)))),
            Ok(decided) => match decided.into_events() {
                none if none.is_empty() => Ok(self.no_events(&view, Ok(self.unchanged(&view)))),
                events => self.add_to_batch(&view, events.into(), Provenance::Decided),
            },
        }
    }

    /// A result without a commit is valid only if its state was compared with the store, or once
    /// the batch it depends on is committed.
    fn no_events<X>(
        &self,
        view: &View<A>,
        answer: Result<Executed, ExecuteError<X>>,
    ) -> Attempt<A, X> {
        if view.tail.is_none() && !view.is_fresh {
            self.entry.invalidate();
            return Attempt::Retry(None);
        }
        Attempt::NoEvents { answer, after: view.tail.clone() }
    }

    fn unchanged(&self, view: &View<A>) -> Executed {
        let (stream, attempts) = (self.entry.stream.clone(), self.attempts.made);
        Executed {
            stream,
            version: view.version,
            position: None,
            events: Vec::new(),
            attempts,
            how: Provenance::Decided,
        }
    }

    fn add_to_batch<X>(
        &self,
        view: &View<A>,
        events: Arc<[A::Event]>,
        how: Provenance,
    ) -> Result<Attempt<A, X>, ExecuteError<X>> {
        let encoded = self.encode(&events)?;
        if encoded.is_personal() {
            return Ok(Attempt::NeedsOwnCommit);
        }
        // Tracking starts before the push, so that events of other writers are kept until this
        // caller learns the outcome.
        let decided = self.entry.track(events, view.committed);
        let more = decided.events.len() as u64;
        let version =
            view.version.map_or(Version::FIRST.plus(more - 1), |before| before.plus(more));
        match self.entry.push(view, &decided.events, encoded.events) {
            Some(share) => Ok(Attempt::Batched { share, decided, version, how }),
            None => Ok(Attempt::Retry(Some(decided))),
        }
    }

    /// Rejects events that no store accepts before they enter a batch, so that they do not fail the
    /// other callers' commit.
    fn encode(&self, events: &[A::Event]) -> Result<Encoded> {
        let stream = &self.entry.stream;
        let encoded = Encoded::fresh(events, &self.options.metadata)
            .map_err(|e| e.about(format_args!("stream {stream:?}")))?;
        if encoded.is_large() {
            let check =
                Commit::new().append(stream, ExpectedVersion::Any, encoded.events.iter().cloned());
            check.check()?;
        }
        Ok(encoded)
    }

    async fn wait_for<X>(
        &self,
        batch: Option<Arc<Batch<A>>>,
    ) -> Result<Option<Moved>, ExecuteError<X>> {
        match batch {
            Some(batch) => self.classify(batch.outcome(self.entry, self.tidelock).await),
            None => Ok(None),
        }
    }

    fn classify<X>(&self, outcome: &Outcome) -> Result<Option<Moved>, ExecuteError<X>> {
        match outcome {
            Outcome::Committed { .. } => Ok(None),
            Outcome::Failed(error) => Err(error.clone().into()),
            Outcome::Conflict(conflict) => {
                match classify(conflict.clone(), std::slice::from_ref(&self.entry.stream), None)? {
                    Retryable::Moved(stream, conflict) => Ok(Some((stream, conflict))),
                    Retryable::Done => unreachable!("there is no operation to be done"),
                }
            }
        }
    }

    async fn back_off<X>(&mut self, (stream, last): Moved) -> Result<(), ExecuteError<X>> {
        telemetry::contended(&stream, self.attempts.made);
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ExecuteError::GaveUp { stream, attempts: self.attempts.made, last }),
        }
    }

    async fn executed(
        &self,
        share: &Share<A>,
        version: Version,
        outcome: &Outcome,
        how: Provenance,
    ) -> Executed {
        if let Some(folded) = share.batch.take_snapshot() {
            write_snapshot(self.tidelock, &self.entry.stream, &folded).await;
        }
        Executed {
            stream: self.entry.stream.clone(),
            version: Some(version),
            position: share.position(outcome),
            events: share.ids.clone(),
            attempts: self.attempts.made,
            how,
        }
    }
}

/// A stream that was not at the expected version.
type Moved = (StreamName, VersionConflict);
