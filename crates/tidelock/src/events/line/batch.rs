//! Decisions that are committed together.
//!
//! A batch takes more until its commit is sent, which is as soon as the batch before it has landed.
//! It is driven by whoever waits for it; if that one goes away in the middle, the next one sends
//! the same commit again, and the store answers with what the first did.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, EventId, ExpectedVersion, NewEvent, Position,
    RetryAdvice, StoreError, StreamName, Timestamp, limits,
};
use tokio::sync::OnceCell;

use super::{Inner, Line};
use crate::events::aggregate::Aggregate;
use crate::events::folded::Folded;
use crate::events::submit::send;
use crate::handle::Tidelock;

/// Bytes of JSON from which on a batch takes no more: far from the limit of a commit, and long
/// enough for any disk.
const ENOUGH_BYTES: usize = limits::COMMIT_BYTES / 8;

pub(crate) struct Batch<A: Aggregate> {
    /// What has to land first; let go of when it has.
    before: Mutex<Option<Arc<Batch<A>>>>,
    content: Mutex<Content<A::Event>>,
    outcome: OnceCell<Outcome>,
    /// A state that should be kept as a snapshot.
    snapshot: Mutex<Option<Folded<A>>>,
}

struct Content<E> {
    is_sent: bool,
    bytes: usize,
    events: Vec<NewEvent>,
    /// The same, as they were decided: one list for each caller.
    decided: Vec<Arc<[E]>>,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// All of it is there.
    Landed {
        /// The positions of its first and its last event.
        positions: Option<(Position, Position)>,
        /// How many events it has.
        count: u64,
    },
    /// Somebody else was quicker, or the stream is closed.
    Refused(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// One caller's part of a batch.
pub(crate) struct Share<A: Aggregate> {
    pub(crate) batch: Arc<Batch<A>>,
    /// How many events of the batch come before the end of this part.
    end: u64,
    pub(crate) ids: Vec<EventId>,
}

impl<A: Aggregate> Share<A> {
    /// Where the last event of this part is. The events of a commit follow each other, usually
    /// without a gap; if there is one, the last position of the commit is good enough for those who
    /// wait to see it.
    pub(crate) fn position(&self, outcome: &Outcome) -> Option<Position> {
        let Outcome::Landed { positions: Some((first, last)), count } = outcome else {
            return None;
        };
        let without_gap = last.get() - first.get() + 1 == *count;
        Some(if without_gap { first.plus(self.end - 1) } else { *last })
    }
}

impl<A: Aggregate> Batch<A> {
    fn after(before: Option<Arc<Self>>) -> Arc<Self> {
        let content = Content { is_sent: false, bytes: 0, events: Vec::new(), decided: Vec::new() };
        Arc::new(Self {
            before: Mutex::new(before),
            content: Mutex::new(content),
            outcome: OnceCell::new(),
            snapshot: Mutex::new(None),
        })
    }

    /// Adds one caller's events to the newest batch, or to a new one behind it.
    pub(super) fn add(
        tail: Option<Arc<Self>>,
        decided: Arc<[A::Event]>,
        events: Vec<NewEvent>,
    ) -> Share<A> {
        let ids = events.iter().map(|event| event.id).collect();
        let batch = match tail {
            Some(tail) if tail.content().has_room(events.len()) => tail,
            before => Self::after(before),
        };
        let end = batch.content().add(decided, events);
        Share { batch, end, ids }
    }

    /// What becomes of it. Whoever asks drives it, if nobody else does.
    pub(crate) async fn outcome(&self, line: &Line<A>, tidelock: &Tidelock) -> &Outcome {
        self.outcome.get_or_init(|| self.land(line, tidelock)).await
    }

    /// The state to be kept, for the first who asks.
    pub(crate) fn take_snapshot(&self) -> Option<Folded<A>> {
        lock(&self.snapshot).take()
    }

    async fn land(&self, line: &Line<A>, tidelock: &Tidelock) -> Outcome {
        let before = lock(&self.before).clone();
        if let Some(before) = before {
            let earlier = in_a_box(&before, line, tidelock).await;
            if let Some(not_landed) = behind(earlier) {
                return not_landed;
            }
            *lock(&self.before) = None;
        }
        let Some(expected) = line.lock().expected() else {
            let advice =
                if self.content().is_sent { RetryAdvice::Unknown } else { RetryAdvice::Later };
            return Outcome::Failed(thrown_away(&line.stream).advising(advice));
        };
        let commit = Commit::new().append(&line.stream, expected, self.content().sent());
        let sent = send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await;
        match sent {
            Ok(CommitOutcome::Committed(committed)) => self.landed(line, &committed),
            Ok(CommitOutcome::Conflict(conflict)) => {
                line.lock().throw_away();
                Outcome::Refused(conflict)
            }
            Err(error) => {
                line.lock().throw_away();
                Outcome::Failed(error)
            }
        }
    }

    fn landed(&self, line: &Line<A>, committed: &Committed) -> Outcome {
        let positions = committed.appends.first().and_then(|appended| appended.positions);
        // In this order, which is that of `push`.
        let mut inner = line.lock();
        let mut content = self.content();
        let count = content.events.len() as u64;
        let last = positions.map(|(_, last)| (last, committed.at));
        if let Some(folded) = inner.landed(&content.decided, last) {
            *lock(&self.snapshot) = Some(folded);
        }
        if inner.tail.as_ref().is_some_and(|tail| std::ptr::eq(&raw const **tail, self)) {
            inner.tail = None;
        }
        (content.events, content.decided) = (Vec::new(), Vec::new());
        Outcome::Landed { positions, count }
    }

    fn content(&self) -> MutexGuard<'_, Content<A::Event>> {
        lock(&self.content)
    }
}

/// A batch waits for the one before it, which is of the same kind: somewhere the types must end.
fn in_a_box<'a, A: Aggregate>(
    batch: &'a Batch<A>,
    line: &'a Line<A>,
    tidelock: &'a Tidelock,
) -> Pin<Box<dyn Future<Output = &'a Outcome> + Send + 'a>> {
    Box::pin(batch.outcome(line, tidelock))
}

/// What it means for a batch that the one before it did not land.
fn behind(earlier: &Outcome) -> Option<Outcome> {
    match earlier {
        Outcome::Landed { .. } => None,
        Outcome::Refused(conflict) => Some(Outcome::Refused(conflict.clone())),
        // Whether that one happened is for its callers to wonder; this one did not.
        Outcome::Failed(error) => Some(Outcome::Failed(error.clone().advising(RetryAdvice::Later))),
    }
}

fn thrown_away(stream: &StreamName) -> StoreError {
    StoreError::invalid(format!(
        "stream {stream:?}: applying an event panicked, and what was decided is thrown away"
    ))
}

impl<E> Content<E> {
    fn has_room(&self, events: usize) -> bool {
        !self.is_sent
            && self.bytes < ENOUGH_BYTES
            && self.events.len() + events <= limits::EVENTS_PER_COMMIT
    }

    fn add(&mut self, decided: Arc<[E]>, events: Vec<NewEvent>) -> u64 {
        let bytes = |event: &NewEvent| event.payload.as_str().len() + event.metadata.as_str().len();
        self.bytes += events.iter().map(bytes).sum::<usize>();
        self.events.extend(events);
        self.decided.push(decided);
        self.events.len() as u64
    }

    /// What is sent, again and again if need be; nothing is added any more.
    fn sent(&mut self) -> Vec<NewEvent> {
        self.is_sent = true;
        self.events.clone()
    }
}

impl<A: Aggregate> Inner<A> {
    /// What a batch expects whose turn it is to land.
    fn expected(&self) -> Option<ExpectedVersion> {
        self.base.as_ref().map(Folded::expected)
    }

    /// Takes note of a batch that has landed. Returns the state if it should be kept.
    fn landed(
        &mut self,
        decided: &[Arc<[A::Event]>],
        last: Option<(Position, Timestamp)>,
    ) -> Option<Folded<A>> {
        let base = self.base.as_mut()?;
        let before = base.version;
        for events in decided {
            self.recent.note_ours(base.next(), events);
            base.append(events, last);
            self.pending.pop_front();
        }
        if self.pending.is_empty() {
            self.ahead = None;
        }
        A::snapshots().are_due(before, base).then(|| base.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
