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
use super::into_events::IntoEvents;
use super::line::{PendingDecision, View};
use super::lines::Place;
use super::operation::{self, OperationRecord};
use super::options::Options;
use crate::handle::Tidelock;

/// One aggregate of a decision.
pub struct Participant<A: Aggregate> {
    /// Dropped before the cache entry.
    carried: Option<PendingDecision<A>>,
    turn: Option<OwnedMutexGuard<()>>,
    view: Option<View<A>>,
    decided: Arc<[A::Event]>,
    encoded: Encoded,
    snapshot: Option<Folded<A>>,
    place: Place<A>,
}

/// Type-erased participant.
#[async_trait]
pub(crate) trait AnyParticipant: Send {
    fn stream(&self) -> &StreamName;
    /// Acquires the decision lock and waits for earlier batches. Returns `false` after the
    /// deadline.
    async fn lock(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool;
    /// Loads the state.
    async fn look(&mut self, tidelock: &Tidelock) -> Result<(), LoadError>;
    /// Whether the state was compared with the store.
    fn is_fresh(&self) -> bool;
    /// Forces the next load to catch up with the store.
    fn invalidate(&self);
    fn expected(&self) -> ExpectedVersion;
    /// Reuses the previous decision if it is still valid.
    fn rebase(&mut self) -> bool;
    fn appends(&self) -> bool;
    fn add_to(&mut self, commit: Commit, options: &Options) -> Result<Commit>;
    fn did(&self) -> OperationRecord;
    /// Releases the decision lock and tracks the decided events for a rebase.
    fn unlock(&mut self);
    fn landed(&mut self, committed: &Committed) -> Executed;
    async fn keep_snapshot(&mut self, tidelock: &Tidelock);
}

impl<A: Aggregate> Participant<A> {
    pub(crate) fn new(place: Place<A>) -> Self {
        Self {
            carried: None,
            turn: None,
            view: None,
            decided: Vec::new().into(),
            encoded: Encoded::default(),
            snapshot: None,
            place,
        }
    }

    fn seen(&self) -> &View<A> {
        self.view.as_ref().expect("nobody decides before they have looked")
    }

    fn version_after(&self) -> Option<Version> {
        let before = self.seen().version;
        match (self.decided.len() as u64, before) {
            (0, before) => before,
            (more, Some(before)) => Some(before.plus(more)),
            (more, None) => Some(Version::FIRST.plus(more - 1)),
        }
    }

    fn take_note(&mut self, appended: &Appended, at: Timestamp) {
        let last = appended.positions.map(|(_, last)| (last, at));
        let view = self.seen();
        let personal = view.is_personal || self.encoded.is_personal();
        self.snapshot = self.place.landed(view.version, &self.decided, last, personal);
    }
}

#[async_trait]
impl<A: Aggregate> AnyParticipant for Participant<A> {
    fn stream(&self) -> &StreamName {
        &self.place.stream
    }

    async fn lock(&mut self, tidelock: &Tidelock, deadline: Option<Instant>) -> bool {
        self.turn = self.place.turn(|| deadline).await;
        if self.turn.is_some()
            && let Some(tail) = self.place.tail()
        {
            // The next load shows whether it was committed.
            tail.outcome(&self.place, tidelock).await;
        }
        self.turn.is_some()
    }

    async fn look(&mut self, tidelock: &Tidelock) -> Result<(), LoadError> {
        self.view = None;
        self.view = Some(self.place.view(&**tidelock.store()).await?);
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.seen().is_fresh
    }

    fn invalidate(&self) {
        self.place.invalidate();
    }

    fn expected(&self) -> ExpectedVersion {
        self.seen().version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
    }

    fn rebase(&mut self) -> bool {
        let Some(carried) = self.carried.take().filter(PendingDecision::still_holds) else {
            return false;
        };
        self.decided = carried.events.clone();
        true
    }

    fn appends(&self) -> bool {
        !self.decided.is_empty()
    }

    fn add_to(&mut self, commit: Commit, options: &Options) -> Result<Commit> {
        let stream = &self.place.stream;
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

    fn did(&self) -> OperationRecord {
        let events = self.encoded.events.iter().map(|event| event.id).collect();
        OperationRecord { stream: self.place.stream.clone(), version: self.version_after(), events }
    }

    fn unlock(&mut self) {
        self.place.invalidate();
        let version = self.seen().version;
        self.carried = Some(self.place.carry(self.decided.clone(), version));
        (self.view, self.turn) = (None, None);
    }

    fn landed(&mut self, committed: &Committed) -> Executed {
        let appended =
            committed.appends.iter().find(|appended| appended.stream == self.place.stream);
        let OperationRecord { stream, version, events } = self.did();
        if let Some(appended) = appended {
            self.take_note(appended, committed.at);
        }
        let position = appended.and_then(|appended| Some(appended.positions?.1));
        (self.view, self.turn) = (None, None);
        Executed { stream, version, position, events, attempts: 1, how: Provenance::Decided }
    }

    async fn keep_snapshot(&mut self, tidelock: &Tidelock) {
        if let Some(folded) = self.snapshot.take() {
            keep(tidelock, &self.place.stream, &folded).await;
        }
    }
}

/// Writes a snapshot. A failure is only logged: a later commit writes the next one.
pub(crate) async fn keep<A: Aggregate>(
    tidelock: &Tidelock,
    stream: &StreamName,
    folded: &Folded<A>,
) {
    if let Err(error) = A::snapshots().keep(&**tidelock.store(), stream, folded).await {
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
    fn take(&mut self, decided: D);
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
        &self.seen().state
    }

    #[allow(private_interfaces)]
    fn each(&mut self) -> Vec<&mut dyn AnyParticipant> {
        vec![self]
    }
}

impl<A: Aggregate, D: IntoEvents<A::Event>> IntoDecisions<D> for Participant<A> {
    fn take(&mut self, decided: D) {
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
        self.iter_mut().map(|seat| seat as &mut dyn AnyParticipant).collect()
    }
}

/// One result per participant, in order; missing ones at the end append nothing.
impl<A: Aggregate, D: IntoEvents<A::Event>> IntoDecisions<Vec<D>> for Vec<Participant<A>> {
    fn take(&mut self, decided: Vec<D>) {
        let mut decided = decided.into_iter();
        for seat in self {
            seat.decided = decided.next().map(D::into_events).unwrap_or_default().into();
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
            fn take(&mut self, decided: ($($decided,)+)) {
                $(self.$at.take(decided.$at);)+
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
