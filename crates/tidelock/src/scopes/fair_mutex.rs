//! A FIFO async mutex that hands the lock directly to the next waiter (no barging).
//!
//! The guard's holder receives a copy of the value and may store a new one on release. A release
//! hands the lock to the longest waiter without unlocking it in between. A cancelled waiter leaves
//! the queue; if it was just granted the lock, it passes the lock on.
//!
//! Built only on a mutex and wakers, so that its schedules can be explored: `tests/fair_mutex.rs`
//! includes this file with another mutex.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::sync::{Mutex, MutexGuard};

/// FIFO async mutex around a value.
#[derive(Debug)]
pub(crate) struct FairMutex<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    /// The protected value. It is stored here so that acquire and release take one lock each.
    value: T,
    /// Number of tickets issued. Tickets order the waiters.
    tickets: u64,
    /// The lock's holder, or the waiter it was handed to that has not been polled yet.
    holder: Option<u64>,
    /// The other waiters, in FIFO order.
    waiting: VecDeque<(u64, Waker)>,
}

/// Holds the lock; dropping it passes the lock to the next waiter.
#[derive(Debug)]
pub(crate) struct FairMutexGuard<'a, T> {
    mutex: &'a FairMutex<T>,
    /// The new value to store on release.
    new_value: Option<T>,
}

/// Waits for the lock. Joins the queue at the first poll.
#[derive(Debug)]
pub(crate) struct Acquire<'a, T> {
    mutex: &'a FairMutex<T>,
    ticket: Option<u64>,
}

impl<T: Clone> FairMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            queue: Mutex::new(Queue { value, tickets: 0, holder: None, waiting: VecDeque::new() }),
        }
    }

    /// Reads the value without the lock.
    pub(crate) fn get(&self) -> T {
        self.lock_queue().value.clone()
    }
}

impl<T> FairMutex<T> {
    /// Waits for the lock and returns the value at that time.
    pub(crate) fn lock(&self) -> Acquire<'_, T> {
        Acquire { mutex: self, ticket: None }
    }

    /// Wakes all waiters, so that each checks its deadline.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<_> =
            self.lock_queue().waiting.iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> FairMutexGuard<'_, T> {
    /// Releases the lock and stores a new value.
    pub(crate) fn release_with(mut self, value: T) {
        self.new_value = Some(value);
    }
}

impl<T> Queue<T> {
    /// Grants the lock to the first waiter and returns its waker.
    fn grant_next(&mut self) -> Option<Waker> {
        let next = self.waiting.pop_front();
        self.holder = next.as_ref().map(|(ticket, _)| *ticket);
        next.map(|(_, waker)| waker)
    }

    /// Joins the queue. Returns the ticket and whether the lock was acquired immediately.
    fn join(&mut self, waker: &Waker) -> (u64, bool) {
        self.tickets += 1;
        let ticket = self.tickets;
        let acquired = self.holder.is_none();
        if acquired {
            self.holder = Some(ticket);
        } else {
            self.waiting.push_back((ticket, waker.clone()));
        }
        (ticket, acquired)
    }

    /// Whether this ticket holds the lock; if not, updates its waker.
    fn is_granted(&mut self, ticket: u64, waker: &Waker) -> bool {
        if self.holder == Some(ticket) {
            return true;
        }
        if let Some(position) = self.position(ticket) {
            self.waiting[position].1.clone_from(waker);
        }
        false
    }

    /// Tickets in the queue are sorted.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}

impl<'a, T: Clone> Future for Acquire<'a, T> {
    type Output = (FairMutexGuard<'a, T>, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mutex = self.mutex;
        let mut queue = mutex.lock_queue();
        let (ticket, acquired) = match self.ticket {
            None => queue.join(context.waker()),
            Some(ticket) => (ticket, queue.is_granted(ticket, context.waker())),
        };
        // Once acquired, the guard releases the lock, not this future.
        self.ticket = (!acquired).then_some(ticket);
        if acquired {
            Poll::Ready((FairMutexGuard { mutex, new_value: None }, queue.value.clone()))
        } else {
            Poll::Pending
        }
    }
}

impl<T> Drop for Acquire<'_, T> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut queue = self.mutex.lock_queue();
        let next = if queue.holder == Some(ticket) {
            queue.grant_next()
        } else {
            let position = queue.position(ticket);
            position.and_then(|position| queue.waiting.remove(position));
            None
        };
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<T> Drop for FairMutexGuard<'_, T> {
    fn drop(&mut self) {
        let mut queue = self.mutex.lock_queue();
        // The old value is dropped with the guard, outside the lock.
        if let Some(new_value) = &mut self.new_value {
            mem::swap(new_value, &mut queue.value);
        }
        let next = queue.grant_next();
        drop(queue);
        // Woken outside the lock: the next waiter may take it at once.
        if let Some(next) = next {
            next.wake();
        }
    }
}
