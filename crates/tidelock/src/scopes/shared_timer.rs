//! Turns that are waited for until a time, and no longer.
//!
//! A timer for each who waits would cost more than the turn itself: a turn is over in less than a
//! microsecond, and a timer is an entry in a wheel that the whole runtime shares. So all who wait
//! for the same turns share a bell, which rings at the earliest of their times. It wakes them all:
//! who is late goes away, and the others hang up the next. While turns are had in time, a bell is
//! hung once in the time that callers allow, and not once a call.
//!
//! Every runtime has a bell of its own, because a runtime that nobody drives any more keeps no
//! time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Poll;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::fair_mutex::{Turn, Turns};
use super::sync::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct TimedTurns<T> {
    turns: Turns<T>,
    /// The next bell of each runtime that has one.
    hung: Mutex<Vec<Hung>>,
}

#[derive(Debug)]
struct Hung {
    place: Place,
    /// Who rings it; nobody yet, while it is being hung.
    ringer: Option<Ringer>,
}

/// Where and when a bell rings.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    runtime: Id,
    at: Instant,
}

/// Rings when it is dropped: when its time has come, or when the runtime that kept its time is shut
/// down.
struct Bell<T> {
    turns: Weak<TimedTurns<T>>,
    place: Place,
}

/// Keeps the time of a bell for as long as that is of use.
#[derive(Debug)]
struct Ringer(AbortHandle);

impl<T: Clone + Send + 'static> TimedTurns<T> {
    pub(crate) fn at(value: T) -> Arc<Self> {
        Arc::new(Self { turns: Turns::at(value), hung: Mutex::new(Vec::new()) })
    }

    /// What there is, without a turn at it.
    pub(crate) fn look(&self) -> T {
        self.turns.look()
    }

    /// Waits for a turn, and for what there is then; for nothing, if it takes too long.
    pub(crate) async fn take(self: &Arc<Self>, until: Option<Instant>) -> Option<(Turn<'_, T>, T)> {
        let mut taking = pin!(self.turns.take());
        poll_fn(|context| match taking.as_mut().poll(context) {
            Poll::Ready(turn) => Poll::Ready(Some(turn)),
            // Only now, with a place in the queue: a bell that rings from here on wakes this one.
            Poll::Pending if until.is_none_or(|until| self.will_ring_by(until)) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Sees to it that a bell rings at this time or before; not if it has passed. Only who finds no
    /// bell looks at the clock. Who is late finds none: the one that woke it was taken down.
    fn will_ring_by(self: &Arc<Self>, at: Instant) -> bool {
        let runtime = Handle::current();
        let place = Place { runtime: runtime.id(), at };
        if is_served(&self.hung(), place) {
            return true;
        }
        let in_time = Instant::now() < at;
        if in_time {
            self.hang(&runtime, place);
        }
        in_time
    }

    /// Hangs up a bell, unless another was quicker.
    fn hang(self: &Arc<Self>, runtime: &Handle, place: Place) {
        let Some(_later) = self.make_room(place) else { return };
        let (bell, time) = (Bell { turns: Arc::downgrade(self), place }, sleep_until(place.at));
        let ringer = runtime.spawn(async move {
            let _bell = bell;
            time.await;
        });
        self.keep(place, Ringer(ringer.abort_handle()));
    }
}

impl<T> TimedTurns<T> {
    /// Says that there will be a bell, and gives the ones that it takes the place of; nothing, if
    /// it is not needed.
    fn make_room(&self, place: Place) -> Option<Vec<Hung>> {
        let mut hung = self.hung();
        if is_served(&hung, place) {
            return None;
        }
        let later = hung.extract_if(.., |hung| hung.place.runtime == place.runtime).collect();
        hung.push(Hung { place, ringer: None });
        Some(later)
    }

    /// Keeps the ringer of a bell, if that was not rung meanwhile.
    fn keep(&self, place: Place, ringer: Ringer) {
        if let Some(hung) = self.hung().iter_mut().find(|hung| hung.place == place) {
            hung.ringer = Some(ringer);
        }
    }

    /// Takes down a bell, unless another took its place.
    fn take_down(&self, place: Place) -> Option<Hung> {
        let mut hung = self.hung();
        let found = hung.iter().position(|hung| hung.place == place)?;
        Some(hung.swap_remove(found))
    }

    fn hung(&self) -> MutexGuard<'_, Vec<Hung>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a bell rings there by then.
fn is_served(hung: &[Hung], place: Place) -> bool {
    hung.iter().any(|hung| hung.place.runtime == place.runtime && hung.place.at <= place.at)
}

impl<T> Drop for Bell<T> {
    fn drop(&mut self) {
        let Some(turns) = self.turns.upgrade() else { return };
        if turns.take_down(self.place).is_some() {
            turns.turns.wake_all();
        }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
