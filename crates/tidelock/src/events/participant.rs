//! Participants: the aggregates of a decision that needs its own commit.
//!
//! Each participant holds the decision lock of its aggregate until the commit ends. Several locks
//! are acquired in the order of the stream names, so that two decisions never deadlock.

use std::sync::Arc;

use tidelock_store::{
    Appended, Commit, Committed, EventId, ExpectedVersion, Result, StreamName, Timestamp, Version,
    async_trait,
};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::aggregate::Aggregate;
use super::aggregate_ref::AggregateRef;
use super::encoded::Encoded;
use super::error::LoadError;
use super::executed::{Executed, Provenance};
use super::folded::Folded;
use super::group_commit::{PendingDecision, View};
use super::into_events::IntoEvents;
use super::operation::{self, OperationRecord};
use super::options::Options;
use super::state_cache::CacheEntry;
use crate::handle::Tidelock;

/// One aggregate of a decision.
pub struct Participant<A: Aggregate> {
    /// Dropped before the cache entry.
    pending: Option<PendingDecision<A>>,
    lock: Option<OwnedMutexGuard<()>>,
    view: Option<View<A>>,
    decided: Arc<[A::Event]>,
    encoded: Encoded,
    snapshot: Option<Folded<A>>,
    entry: CacheEntry<A>,
}

/// Type-erased participant.
#[async_trait]
pub(crate) trait AnyParticipant: Send {
    fn stream(&self) -> &StreamName;
    /// Acquires the decision lock and waits for earlier batches. Returns `false` after the
    /// deadline.
    async fn lock(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool;
    /// Loads the state.
    async fn load(&mut self, tidelock: &Tidelock) -> Result<(), LoadError>;
    /// Whether the state was compared with the store.
    fn is_fresh(&self) -> bool;
    /// Forces the next load to catch up with the store.
    fn invalidate(&self);
    fn expected(&self) -> ExpectedVersion;
    /// Reuses the previous decision if it is still valid.
    fn rebase(&mut self) -> bool;
    fn has_events(&self) -> bool;
    fn add_to(&mut self, commit: Commit, options: &Options) -> Result<Commit>;
    fn operation_record(&self) -> OperationRecord;
    /// Releases the decision lock and tracks the decided events for a rebase.
    fn unlock(&mut self);
    fn committed(&mut self, committed: &Committed) -> Executed;
    async fn write_due_snapshot(&mut self, tidelock: &Tidelock);
}

impl<A: Aggregate> Participant<A> {
    pub(crate) fn new(entry: CacheEntry<A>) -> Self {
        Self {
            pending: None,
            lock: None,
            view: None,
            decided: Vec::new().into(),
            encoded: Encoded::default(),
            snapshot: None,
            entry,
        }
    }

    fn view(&self) -> &View<A> {
        self.view.as_ref().expect("a state is loaded before it is decided on")
    }

    fn version_after(&self) -> Option<Version> {
        let before = self.view().version;
        match (self.decided.len() as u64, before) {
            (0, before) => before,
            (more, Some(before)) => Some(before.plus(more)),
            (more, None) => Some(Version::FIRST.plus(more - 1)),
        }
    }

    fn record_append(&mut self, appended: &Appended, at: Timestamp) {
        let last = appended.positions.map(|(_, last)| (last, at));
        let view = self.view();
        let personal = view.is_personal || self.encoded.is_personal();
        self.snapshot = self.entry.apply_committed(view.version, &self.decided, last, personal);
    }
}

#[async_trait]
impl<A: Aggregate> AnyParticipant for Participant<A> {
    fn stream(&self) -> &StreamName {
        &self.entry.stream
    }

    async fn lock(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool {
        self.lock = self.entry.acquire(|| deadline).await;
        if self.lock.is_some()
            && let Some(tail) = self.entry.tail()
        {
            // The next load shows whether it was committed.
            tail.outcome(&self.entry, tidelock).await;
        }
        self.lock.is_some()
    }

    async fn load(&mut self, tidelock: &Tidelock) -> Result<(), LoadError> {
        self.view = None;
        self.view = Some(self.entry.view(&**tidelock.store()).await?);
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.view().is_fresh
    }

    fn invalidate(&self) {
        self.entry.invalidate();
    }

    fn expected(&self) -> ExpectedVersion {
        self.view().version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
    }

    fn rebase(&mut self) -> bool {
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
        let stream = &self.entry.stream;
        if self.decided.is_empty() {
            return Ok(commit.guard_stream(stream, self.expected()));
        }
        let id = |nth| match &options.operation {
            Some(operation) => operation::event_id(operation, stream, nth),
            None => EventId::fresh(),
        };
        let encoded = Encoded::with_ids(&*self.decided, &options.metadata, id);
        self.encoded = encoded.map_err(|e| e.about(format_args!("stream {stream:?}")))?;
        self.encoded.clone().add_to(commit, stream, self.expected())
    }

    fn operation_record(&self) -> OperationRecord {
        let events = self.encoded.events.iter().map(|event| event.id).collect();
        OperationRecord { stream: self.entry.stream.clone(), version: self.version_after(), events }
    }

    fn unlock(&mut self) {
        self.entry.invalidate();
        let version = self.view().version;
        self.pending = Some(self.entry.track(self.decided.clone(), version));
        (self.view, self.lock) = (None, None);
    }

    fn committed(&mut self, committed: &Committed) -> Executed {
        let appended =
            committed.appends.iter().find(|appended| appended.stream == self.entry.stream);
        let OperationRecord { stream, version, events } = self.operation_record();
        if let Some(appended) = appended {
            self.record_append(appended, committed.at);
        }
        let position = appended.and_then(|appended| Some(appended.positions?.1));
        (self.view, self.lock) = (None, None);
        Executed { stream, version, position, events, attempts: 1, how: Provenance::Decided }
    }

    async fn write_due_snapshot(&mut self, tidelock: &Tidelock) {
        if let Some(folded) = self.snapshot.take() {
            write_snapshot(tidelock, &self.entry.stream, &folded).await;
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
