//! Participants: the aggregates of a decision.
//!
//! Each participant of a decision with its own commit keeps its turn until the commit ends. Several
//! turns are taken in the order of the stream names, so that two decisions never deadlock.

use std::sync::Arc;

use tidelock_store::{
    Commit, Committed, EventId, ExpectedVersion, Result, StreamName, async_trait,
};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::aggregate::Aggregate;
use super::aggregate_ref::AggregateRef;
use super::cached_stream::{CachedStream, StreamView};
use super::encoded::Encoded;
use super::error::LoadError;
use super::executed::{Executed, Provenance};
use super::folded::Folded;
use super::into_events::IntoEvents;
use super::operation::{self, OperationRecord};
use super::options::Options;
use super::rebase::PendingDecision;
use crate::group_commit::{CacheEntry, View};
use crate::handle::Tidelock;

/// One aggregate of a decision.
pub struct Participant<A: Aggregate> {
    /// The previous attempt's decision. Dropped before the cache entry.
    pub(super) pending: Option<PendingDecision<A>>,
    turn: Option<OwnedMutexGuard<()>>,
    view: Option<View<CachedStream<A>>>,
    decided: Arc<[A::Event]>,
    /// Whether the caller has decided, whatever the state is.
    is_given: bool,
    encoded: Encoded,
    snapshot: Option<Folded<A>>,
    pub(super) entry: CacheEntry<CachedStream<A>>,
}

/// Type-erased participant of a decision with its own commit.
#[async_trait]
pub(crate) trait AnyParticipant: Send {
    fn stream(&self) -> &StreamName;
    /// Waits for the turn and for earlier batches. Returns `false` after the deadline.
    async fn take_turn(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool;
    /// Loads the state.
    async fn load(&mut self, tidelock: &Tidelock) -> Result<(), LoadError>;
    /// Whether the state was compared with the store.
    fn is_fresh(&self) -> bool;
    /// Forces the next load to catch up with the store.
    fn invalidate(&self);
    fn expected(&self) -> ExpectedVersion;
    /// Reuses the previous decision if it is still valid, or the one that was given.
    fn rebase(&mut self) -> bool;
    fn has_events(&self) -> bool;
    fn add_to(&mut self, commit: Commit, options: &Options) -> Result<Commit>;
    fn operation_record(&self) -> OperationRecord;
    /// Ends the turn after a conflict, and tracks the decided events for a rebase.
    fn end_turn(&mut self);
    /// Returns the result, and caches the committed events.
    fn executed(
        &mut self,
        committed: Option<&Committed>,
        attempts: u32,
        how: Provenance,
    ) -> Executed;
    async fn write_due_snapshot(&mut self, tidelock: &Tidelock);
}

impl<A: Aggregate> Participant<A> {
    pub(crate) fn new(entry: CacheEntry<CachedStream<A>>) -> Self {
        Self {
            pending: None,
            turn: None,
            view: None,
            decided: Arc::default(),
            is_given: false,
            encoded: Encoded::default(),
            snapshot: None,
            entry,
        }
    }

    /// Appends these events, whatever the state is.
    pub(super) fn give(&mut self, events: Vec<A::Event>) {
        (self.decided, self.is_given) = (events.into(), true);
    }

    fn view(&self) -> &StreamView<A> {
        &self.loaded().state
    }

    fn loaded(&self) -> &View<CachedStream<A>> {
        self.view.as_ref().expect("a state is loaded before it is decided on")
    }

    /// The result of this participant; its events are cached.
    fn executed_as(
        &mut self,
        committed: Option<&Committed>,
        attempts: u32,
        how: Provenance,
    ) -> Executed {
        let OperationRecord { stream, version, events } = self.operation_record();
        let Some((committed, appended)) = committed.and_then(|committed| {
            Some((committed, committed.appends.iter().find(|one| one.stream == stream)?))
        }) else {
            return Executed { stream, version, position: None, events, attempts, how };
        };
        let last = appended.positions.map(|(_, last)| (last, committed.at));
        let position = last.map(|(position, _)| position);
        if version != Some(appended.version) {
            // The store had events with these ids before.
            let (version, how) = (Some(appended.version), Provenance::Replayed);
            return Executed { stream, version, position, events, attempts, how };
        }
        let (before, personal) = (self.view().version, self.view().is_personal);
        let personal = personal || self.encoded.is_personal();
        self.snapshot =
            self.entry.with(|state| state.apply_committed(before, &self.decided, last, personal));
        Executed { stream, version, position, events, attempts, how }
    }

    /// Encodes decided events. Rejects those that no store accepts before they enter a batch, so
    /// that they do not fail the other callers' commit.
    pub(super) fn encode(&self, events: &[A::Event], options: &Options) -> Result<Encoded> {
        let stream = &self.entry.key;
        let id = |nth| match (options.event_id(nth), &options.operation) {
            (Some(id), _) => id,
            (None, Some(operation)) => operation::event_id(operation, stream, nth),
            (None, None) => EventId::fresh(),
        };
        let encoded = Encoded::with_ids(events, &options.metadata, id)
            .map_err(|e| e.about(format_args!("stream {stream:?}")))?;
        if encoded.is_large() {
            let events = encoded.events.iter().cloned();
            Commit::new().append(stream, ExpectedVersion::Any, events).check()?;
        }
        Ok(encoded)
    }
}

#[async_trait]
impl<A: Aggregate> AnyParticipant for Participant<A> {
    fn stream(&self) -> &StreamName {
        &self.entry.key
    }

    async fn take_turn(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool {
        self.turn = self.entry.turn(|| deadline).await;
        if self.turn.is_some()
            && let Some(tail) = self.entry.tail()
        {
            // The next load shows whether it landed.
            tail.outcome(tidelock).await;
        }
        self.turn.is_some()
    }

    async fn load(&mut self, tidelock: &Tidelock) -> Result<(), LoadError> {
        self.view = None;
        self.view = Some(self.entry.view_or_read(&**tidelock.store()).await?);
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.loaded().is_fresh
    }

    fn invalidate(&self) {
        self.entry.invalidate();
    }

    fn expected(&self) -> ExpectedVersion {
        self.view().expected()
    }

    fn rebase(&mut self) -> bool {
        if self.is_given {
            return true;
        }
        let Some(pending) = self.pending.take().filter(PendingDecision::is_valid) else {
            return false;
        };
        self.decided = pending.events.clone();
        true
    }

    fn has_events(&self) -> bool {
        !self.decided.is_empty()
    }

    fn add_to(&mut self, commit: Commit, options: &Options) -> Result<Commit> {
        if self.decided.is_empty() {
            return Ok(commit.guard_stream(self.stream(), self.expected()));
        }
        self.encoded = self.encode(&self.decided, options)?;
        self.encoded.clone().add_to(commit, self.stream(), self.expected())
    }

    fn operation_record(&self) -> OperationRecord {
        OperationRecord {
            stream: self.stream().clone(),
            version: self.view().version_after(self.decided.len()),
            events: self.encoded.events.iter().map(|event| event.id).collect(),
        }
    }

    fn end_turn(&mut self) {
        self.invalidate();
        let (entry, known) = (Arc::clone(&self.entry), self.view().version);
        self.pending = Some(PendingDecision::new(entry, self.decided.clone(), known));
        (self.view, self.turn) = (None, None);
    }

    fn executed(
        &mut self,
        committed: Option<&Committed>,
        attempts: u32,
        how: Provenance,
    ) -> Executed {
        let executed = self.executed_as(committed, attempts, how);
        (self.view, self.turn) = (None, None);
        executed
    }

    async fn write_due_snapshot(&mut self, tidelock: &Tidelock) {
        if let Some(folded) = self.snapshot.take() {
            write_snapshot(tidelock, &self.entry.key, &folded).await;
        }
    }
}

/// Writes a snapshot. A failure is only logged: a later commit writes the next one.
pub(crate) async fn write_snapshot<A: Aggregate>(
    tidelock: &Tidelock,
    stream: &StreamName,
    folded: &Folded<A>,
) {
    if let Err(error) = A::snapshots().save(&**tidelock.store(), stream, folded).await {
        tracing::warn!(stream = stream.as_str(), %error, "a snapshot could not be kept");
    }
}

/// The aggregates of one decision, each with its own type. Sealed: only this crate implements it.
pub trait ParticipantSet: Send {
    /// The states passed to the decision.
    type States<'a>
    where
        Self: 'a;

    /// Returns the loaded states.
    fn states(&self) -> Self::States<'_>;

    #[doc(hidden)]
    #[allow(private_interfaces)] // only this crate can make or use one
    fn each(&mut self) -> Vec<&mut dyn AnyParticipant>;
}

/// Accepts the events decided for a set of participants.
pub trait IntoDecisions<D>: ParticipantSet {
    /// Assigns each participant its events.
    fn assign(&mut self, decided: D);
}

/// Aggregates that one decision can cover: a tuple of references, or a slice of one type.
pub trait AggregateSet {
    /// The participants of the decision.
    type Participants: ParticipantSet;

    /// Creates the participants, without locking them.
    ///
    /// # Errors
    /// If a stream name is invalid.
    fn participants(self) -> Result<Self::Participants>;
}

impl<A: Aggregate> ParticipantSet for Participant<A> {
    type States<'a> = &'a A;

    fn states(&self) -> &A {
        &self.view().state
    }

    #[allow(private_interfaces)]
    fn each(&mut self) -> Vec<&mut dyn AnyParticipant> {
        vec![self]
    }
}

impl<A: Aggregate, D: IntoEvents<A::Event>> IntoDecisions<D> for Participant<A> {
    fn assign(&mut self, decided: D) {
        self.decided = decided.into_events().into();
    }
}

impl<A: Aggregate> AggregateSet for &AggregateRef<A> {
    type Participants = Participant<A>;

    fn participants(self) -> Result<Participant<A>> {
        self.participant()
    }
}

impl<A: Aggregate> ParticipantSet for Vec<Participant<A>> {
    type States<'a> = Vec<&'a A>;

    fn states(&self) -> Vec<&A> {
        self.iter().map(ParticipantSet::states).collect()
    }

    #[allow(private_interfaces)]
    fn each(&mut self) -> Vec<&mut dyn AnyParticipant> {
        self.iter_mut().map(|participant| participant as &mut dyn AnyParticipant).collect()
    }
}

/// One result per participant, in order; missing ones at the end append nothing.
impl<A: Aggregate, D: IntoEvents<A::Event>> IntoDecisions<Vec<D>> for Vec<Participant<A>> {
    fn assign(&mut self, decided: Vec<D>) {
        let mut decided = decided.into_iter();
        for participant in self {
            participant.decided = decided.next().map(D::into_events).unwrap_or_default().into();
        }
    }
}

impl<A: Aggregate> AggregateSet for &[AggregateRef<A>] {
    type Participants = Vec<Participant<A>>;

    fn participants(self) -> Result<Vec<Participant<A>>> {
        self.iter().map(AggregateRef::participant).collect()
    }
}

macro_rules! tuple {
    ($($aggregate:ident $decided:ident $at:tt),+) => {
        impl<$($aggregate: ParticipantSet),+> ParticipantSet for ($($aggregate,)+) {
            type States<'a> = ($($aggregate::States<'a>,)+) where Self: 'a;

            fn states(&self) -> Self::States<'_> {
                ($(self.$at.states(),)+)
            }

            #[allow(private_interfaces)]
            fn each(&mut self) -> Vec<&mut dyn AnyParticipant> {
                [$(self.$at.each()),+].into_iter().flatten().collect()
            }
        }

        impl<$($aggregate: IntoDecisions<$decided>, $decided),+> IntoDecisions<($($decided,)+)> for ($($aggregate,)+) {
            fn assign(&mut self, decided: ($($decided,)+)) {
                $(self.$at.assign(decided.$at);)+
            }
        }

        impl<$($aggregate: AggregateSet),+> AggregateSet for ($($aggregate,)+) {
            type Participants = ($($aggregate::Participants,)+);

            fn participants(self) -> Result<Self::Participants> {
                Ok(($(self.$at.participants()?,)+))
            }
        }
    };
}

tuple!(A DA 0, B DB 1);
tuple!(A DA 0, B DB 1, C DC 2);
tuple!(A DA 0, B DB 1, C DC 2, E DE 3);
