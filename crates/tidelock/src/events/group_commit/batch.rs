//! Batch of decisions on one aggregate, committed together.
//!
//! A batch accepts decisions until its commit is sent, which happens when the previous batch is
//! committed. The callers that wait for a batch drive it. If the driving future is dropped, another
//! waiter sends the same commit again, and the store returns the first one's outcome.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, EventId, ExpectedVersion, NewEvent, Position,
    RetryAdvice, StoreError, StreamName, Timestamp, limits,
};
use tokio::sync::OnceCell;

use super::{GroupCommit, Inner};
use crate::events::aggregate::Aggregate;
use crate::events::folded::Folded;
use crate::events::submit::send;
use crate::handle::Tidelock;

/// JSON size at which a batch stops accepting decisions: well below the limit of a commit, and
/// large enough to keep any disk busy.
const BATCH_BYTES: usize = limits::COMMIT_BYTES / 8;

pub(crate) struct Batch<A: Aggregate> {
    /// The previous batch; released once it is committed.
    previous: Mutex<Option<Arc<Batch<A>>>>,
    content: Mutex<Content<A::Event>>,
    outcome: OnceCell<Outcome>,
    /// The state to write as a snapshot, if one is due.
    snapshot: Mutex<Option<Folded<A>>>,
}

struct Content<E> {
    is_sent: bool,
    bytes: usize,
    events: Vec<NewEvent>,
    /// The decided events, one list per caller.
    decided: Vec<Arc<[E]>>,
}

/// Outcome of a batch.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// All events are committed.
    Committed {
        /// Positions of the first and the last event.
        positions: Option<(Position, Position)>,
        /// Number of events.
        count: u64,
    },
    /// A concurrent writer was first, or the stream is closed.
    Conflict(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// One caller's share of a batch.
pub(crate) struct Share<A: Aggregate> {
    pub(crate) batch: Arc<Batch<A>>,
    /// Number of the batch's events up to the end of this share.
    end: u64,
    pub(crate) ids: Vec<EventId>,
}

impl<A: Aggregate> Share<A> {
    /// Returns the position of this share's last event. The events of a commit usually have
    /// consecutive positions. If they do not, this is the last position of the commit, which is
    /// sufficient for waiting readers.
    pub(crate) fn position(&self, outcome: &Outcome) -> Option<Position> {
        let Outcome::Committed { positions: Some((first, last)), count } = outcome else {
            return None;
        };
        let without_gap = last.get() - first.get() + 1 == *count;
        Some(if without_gap { first.plus(self.end - 1) } else { *last })
    }
}

impl<A: Aggregate> Batch<A> {
    fn after(previous: Option<Arc<Self>>) -> Arc<Self> {
        let content = Content { is_sent: false, bytes: 0, events: Vec::new(), decided: Vec::new() };
        Arc::new(Self {
            previous: Mutex::new(previous),
            content: Mutex::new(content),
            outcome: OnceCell::new(),
            snapshot: Mutex::new(None),
        })
    }

    /// Adds one caller's events to the newest batch, or to a new batch behind it.
    pub(super) fn add(
        tail: Option<Arc<Self>>,
        decided: Arc<[A::Event]>,
        events: Vec<NewEvent>,
    ) -> Share<A> {
        let ids = events.iter().map(|event| event.id).collect();
        let batch = match tail {
            Some(tail) if tail.content().has_room(events.len()) => tail,
            previous => Self::after(previous),
        };
        let end = batch.content().add(decided, events);
        Share { batch, end, ids }
    }

    /// Waits for the outcome. The first waiter drives the commit.
    pub(crate) async fn outcome(&self, group: &GroupCommit<A>, tidelock: &Tidelock) -> &Outcome {
        self.outcome.get_or_init(|| self.commit_batch(group, tidelock)).await
    }

    /// Takes the state to write as a snapshot; `Some` once.
    pub(crate) fn take_snapshot(&self) -> Option<Folded<A>> {
        lock(&self.snapshot).take()
    }

    async fn commit_batch(&self, group: &GroupCommit<A>, tidelock: &Tidelock) -> Outcome {
        let previous = lock(&self.previous).clone();
        if let Some(previous) = previous {
            let earlier = boxed_outcome(&previous, group, tidelock).await;
            if let Some(failed) = after_previous(earlier) {
                return failed;
            }
            *lock(&self.previous) = None;
        }
        let Some(expected) = group.lock().expected() else {
            let advice =
                if self.content().is_sent { RetryAdvice::Unknown } else { RetryAdvice::Later };
            return Outcome::Failed(discarded(&group.stream).advising(advice));
        };
        let commit = Commit::new().append(&group.stream, expected, self.content().close());
        let sent = send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await;
        match sent {
            Ok(CommitOutcome::Committed(committed)) => self.on_committed(group, &committed),
            Ok(CommitOutcome::Conflict(conflict)) => {
                group.lock().discard_pending();
                Outcome::Conflict(conflict)
            }
            Err(error) => {
                group.lock().discard_pending();
                Outcome::Failed(error)
            }
        }
    }

    fn on_committed(&self, group: &GroupCommit<A>, committed: &Committed) -> Outcome {
        let positions = committed.appends.first().and_then(|appended| appended.positions);
        // Lock order: the same as in `push`.
        let mut inner = group.lock();
        let mut content = self.content();
        let count = content.events.len() as u64;
        let last = positions.map(|(_, last)| (last, committed.at));
        if let Some(folded) = inner.apply_batch(&content.decided, last) {
            *lock(&self.snapshot) = Some(folded);
        }
        if inner.tail.as_ref().is_some_and(|tail| std::ptr::eq(&raw const **tail, self)) {
            inner.tail = None;
        }
        (content.events, content.decided) = (Vec::new(), Vec::new());
        Outcome::Committed { positions, count }
    }

    fn content(&self) -> MutexGuard<'_, Content<A::Event>> {
        lock(&self.content)
    }
}

/// Boxes the future: a batch awaits the previous one, which has the same type.
fn boxed_outcome<'a, A: Aggregate>(
    batch: &'a Batch<A>,
    group: &'a GroupCommit<A>,
    tidelock: &'a Tidelock,
) -> Pin<Box<dyn Future<Output = &'a Outcome> + Send + 'a>> {
    Box::pin(batch.outcome(group, tidelock))
}

/// Outcome of a batch whose previous batch was not committed.
fn after_previous(earlier: &Outcome) -> Option<Outcome> {
    match earlier {
        Outcome::Committed { .. } => None,
        Outcome::Conflict(conflict) => Some(Outcome::Conflict(conflict.clone())),
        // Whether the previous batch was committed may be unknown; this one was not sent.
        Outcome::Failed(error) => Some(Outcome::Failed(error.clone().advising(RetryAdvice::Later))),
    }
}

fn discarded(stream: &StreamName) -> StoreError {
    StoreError::invalid(format!(
        "stream {stream:?}: applying an event panicked, and what was decided is thrown away"
    ))
}

impl<E> Content<E> {
    fn has_room(&self, events: usize) -> bool {
        !self.is_sent
            && self.bytes < BATCH_BYTES
            && self.events.len() + events <= limits::EVENTS_PER_COMMIT
    }

    fn add(&mut self, decided: Arc<[E]>, events: Vec<NewEvent>) -> u64 {
        let bytes = |event: &NewEvent| event.payload.as_str().len() + event.metadata.as_str().len();
        self.bytes += events.iter().map(bytes).sum::<usize>();
        self.events.extend(events);
        self.decided.push(decided);
        self.events.len() as u64
    }

    /// Closes the batch and returns its events. May be called again to resend them.
    fn close(&mut self) -> Vec<NewEvent> {
        self.is_sent = true;
        self.events.clone()
    }
}

impl<A: Aggregate> Inner<A> {
    /// The version that the next batch to commit expects.
    fn expected(&self) -> Option<ExpectedVersion> {
        self.base.as_ref().map(Folded::expected)
    }

    /// Applies a committed batch to the base. Returns the state if a snapshot is due.
    fn apply_batch(
        &mut self,
        decided: &[Arc<[A::Event]>],
        last: Option<(Position, Timestamp)>,
    ) -> Option<Folded<A>> {
        let base = self.base.as_mut()?;
        let before = base.version;
        for events in decided {
            self.recent.record_ours(base.next(), events);
            base.append(events, last);
            self.pending.pop_front();
        }
        if self.pending.is_empty() {
            self.speculative = None;
        }
        A::snapshots().are_due(before, base).then(|| base.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
