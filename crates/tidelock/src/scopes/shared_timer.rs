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

use super::fair_mutex::{FairMutex, FairMutexGuard};
use super::sync::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct TimedMutex<T> {
    mutex: FairMutex<T>,
    /// The armed timer of each runtime.
    timers: Mutex<Vec<ArmedTimer>>,
}

#[derive(Debug)]
struct ArmedTimer {
    key: TimerKey,
    /// The timer's task; `None` while it is being spawned.
    task: Option<TimerTask>,
}

/// Runtime and time of a timer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TimerKey {
    runtime: Id,
    at: Instant,
}

/// Fires when it is dropped: at its time, or when the runtime that drives it is shut down.
struct FireOnDrop<T> {
    mutex: Weak<TimedMutex<T>>,
    key: TimerKey,
}

/// Task of a timer; aborted on drop.
#[derive(Debug)]
struct TimerTask(AbortHandle);

impl<T: Clone + Send + 'static> TimedMutex<T> {
    pub(crate) fn new(value: T) -> Arc<Self> {
        Arc::new(Self { mutex: FairMutex::new(value), timers: Mutex::new(Vec::new()) })
    }

    /// Reads the value without the lock.
    pub(crate) fn get(&self) -> T {
        self.mutex.get()
    }

    /// Waits for the lock and returns the value at that time; `None` after the deadline.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        until: Option<Instant>,
    ) -> Option<(FairMutexGuard<'_, T>, T)> {
        let mut acquire = pin!(self.mutex.lock());
        poll_fn(|context| match acquire.as_mut().poll(context) {
            Poll::Ready(locked) => Poll::Ready(Some(locked)),
            // Checked only after joining the queue: a timer that fires from here on wakes this
            // waiter.
            Poll::Pending if until.is_none_or(|until| self.ensure_timer(until)) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Ensures that a timer fires at or before this deadline. Returns `false` if it has passed.
    /// Only a waiter that finds no timer reads the clock. A waiter past its deadline finds none:
    /// the timer that woke it was removed.
    fn ensure_timer(self: &Arc<Self>, at: Instant) -> bool {
        let runtime = Handle::current();
        let key = TimerKey { runtime: runtime.id(), at };
        if is_covered(&self.timers(), key) {
            return true;
        }
        let in_time = Instant::now() < at;
        if in_time {
            self.arm(&runtime, key);
        }
        in_time
    }

    /// Arms a timer, unless another waiter was first.
    fn arm(self: &Arc<Self>, runtime: &Handle, key: TimerKey) {
        let Some(_replaced) = self.register(key) else { return };
        let (fire, time) = (FireOnDrop { mutex: Arc::downgrade(self), key }, sleep_until(key.at));
        let task = runtime.spawn(async move {
            let _fire = fire;
            time.await;
        });
        self.attach_task(key, TimerTask(task.abort_handle()));
    }
}

impl<T> TimedMutex<T> {
    /// Registers a timer and returns the ones it replaces; `None` if it is not needed.
    fn register(&self, key: TimerKey) -> Option<Vec<ArmedTimer>> {
        let mut timers = self.timers();
        if is_covered(&timers, key) {
            return None;
        }
        let replaced = timers.extract_if(.., |timer| timer.key.runtime == key.runtime).collect();
        timers.push(ArmedTimer { key, task: None });
        Some(replaced)
    }

    /// Stores the task of a timer, if it has not fired meanwhile.
    fn attach_task(&self, key: TimerKey, task: TimerTask) {
        if let Some(timer) = self.timers().iter_mut().find(|timer| timer.key == key) {
            timer.task = Some(task);
        }
    }

    /// Removes a timer, unless another replaced it.
    fn remove(&self, key: TimerKey) -> Option<ArmedTimer> {
        let mut timers = self.timers();
        let found = timers.iter().position(|timer| timer.key == key)?;
        Some(timers.swap_remove(found))
    }

    fn timers(&self) -> MutexGuard<'_, Vec<ArmedTimer>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a timer of this runtime fires by this time.
fn is_covered(timers: &[ArmedTimer], key: TimerKey) -> bool {
    timers.iter().any(|timer| timer.key.runtime == key.runtime && timer.key.at <= key.at)
}

impl<T> Drop for FireOnDrop<T> {
    fn drop(&mut self) {
        let Some(mutex) = self.mutex.upgrade() else { return };
        if mutex.remove(self.key).is_some() {
            mutex.mutex.wake_all();
        }
    }
}

impl Drop for TimerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
