//! A FIFO mutex with deadlines, whose waiters share one timer.
//!
//! A timer per waiter would cost more than the lock: the lock is held for less than a microsecond,
//! and a timer is an entry in a wheel that the whole runtime shares. So all waiters of one mutex
//! share a timer that fires at the earliest of their deadlines. It wakes all of them: waiters past
//! their deadline give up, and the others arm the next timer. While locks are acquired in time, a
//! timer is armed once per deadline interval, not once per call.
//!
//! Each runtime has its own timer, because a runtime that is no longer driven does not advance
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
    /// The armed timer of each runtime.
    hung: Mutex<Vec<Hung>>,
}

#[derive(Debug)]
struct Hung {
    place: Place,
    /// The timer's task; `None` while it is being spawned.
    ringer: Option<Ringer>,
}

/// Runtime and time of a timer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    runtime: Id,
    at: Instant,
}

/// Fires when it is dropped: at its time, or when the runtime that drives it is shut down.
struct Bell<T> {
    turns: Weak<TimedTurns<T>>,
    place: Place,
}

/// Task of a timer; aborted on drop.
#[derive(Debug)]
struct Ringer(AbortHandle);

impl<T: Clone + Send + 'static> TimedTurns<T> {
    pub(crate) fn at(value: T) -> Arc<Self> {
        Arc::new(Self { turns: Turns::at(value), hung: Mutex::new(Vec::new()) })
    }

    /// Reads the value without the lock.
    pub(crate) fn look(&self) -> T {
        self.turns.look()
    }

    /// Waits for the lock and returns the value at that time; `None` after the deadline.
    pub(crate) async fn take(self: &Arc<Self>, until: Option<Instant>) -> Option<(Turn<'_, T>, T)> {
        let mut taking = pin!(self.turns.take());
        poll_fn(|context| match taking.as_mut().poll(context) {
            Poll::Ready(turn) => Poll::Ready(Some(turn)),
            // Checked only after joining the queue: a timer that fires from here on wakes this
            // waiter.
            Poll::Pending if until.is_none_or(|until| self.will_ring_by(until)) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Ensures that a timer fires at or before this deadline. Returns `false` if it has passed.
    /// Only a waiter that finds no timer reads the clock. A waiter past its deadline finds none:
    /// the timer that woke it was removed.
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

    /// Arms a timer, unless another waiter was first.
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
    /// Registers a timer and returns the ones it replaces; `None` if it is not needed.
    fn make_room(&self, place: Place) -> Option<Vec<Hung>> {
        let mut hung = self.hung();
        if is_served(&hung, place) {
            return None;
        }
        let later = hung.extract_if(.., |hung| hung.place.runtime == place.runtime).collect();
        hung.push(Hung { place, ringer: None });
        Some(later)
    }

    /// Stores the task of a timer, if it has not fired meanwhile.
    fn keep(&self, place: Place, ringer: Ringer) {
        if let Some(hung) = self.hung().iter_mut().find(|hung| hung.place == place) {
            hung.ringer = Some(ringer);
        }
    }

    /// Removes a timer, unless another replaced it.
    fn take_down(&self, place: Place) -> Option<Hung> {
        let mut hung = self.hung();
        let found = hung.iter().position(|hung| hung.place == place)?;
        Some(hung.swap_remove(found))
    }

    fn hung(&self) -> MutexGuard<'_, Vec<Hung>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a timer of this runtime fires by this time.
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
