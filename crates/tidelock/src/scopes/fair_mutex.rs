//! Turns at something: one at a time, first come, first served.
//!
//! Whoever has the turn is given what there is, and may leave something else in its place when it
//! ends the turn. Whoever ends a turn hands it to the one who has waited longest; it is never free
//! in between, so nobody can push in. One who goes away while waiting leaves the queue, and one who
//! goes away just as the turn was handed over passes it on.
//!
//! Written on nothing but a lock and wakers, so that its schedules can be explored:
//! `tests/fair_mutex.rs` runs this very file on another lock.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::sync::{Mutex, MutexGuard};

/// Who has the turn, and who waits for it.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    /// What the turns are at. It is here so that taking a turn and ending it cost one lock each.
    value: T,
    /// How many tickets were given out. They say who came first.
    tickets: u64,
    /// Who has the turn, or has been handed it and does not know yet.
    holder: Option<u64>,
    /// Everybody else, in order.
    waiting: VecDeque<(u64, Waker)>,
}

/// The turn itself; dropping it hands it on.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    turns: &'a Turns<T>,
    /// What is left in place.
    left: Option<T>,
}

/// Waits for a turn. The place in the queue is taken when it is first polled.
#[derive(Debug)]
pub(crate) struct Taking<'a, T> {
    turns: &'a Turns<T>,
    ticket: Option<u64>,
}

impl<T: Clone> Turns<T> {
    pub(crate) fn at(value: T) -> Self {
        Self {
            queue: Mutex::new(Queue { value, tickets: 0, holder: None, waiting: VecDeque::new() }),
        }
    }

    /// What there is, without a turn at it.
    pub(crate) fn look(&self) -> T {
        self.lock().value.clone()
    }
}

impl<T> Turns<T> {
    /// Waits for a turn, and for what there is then.
    pub(crate) fn take(&self) -> Taking<'_, T> {
        Taking { turns: self, ticket: None }
    }

    /// Wakes everybody who waits, so that they look at something else than their turn.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<_> = self.lock().waiting.iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Turn<'_, T> {
    /// Ends the turn, and leaves this in place.
    pub(crate) fn leave(mut self, value: T) {
        self.left = Some(value);
    }
}

impl<T> Queue<T> {
    /// Gives the turn to the first in the queue, and says how to wake it.
    fn hand_on(&mut self) -> Option<Waker> {
        let next = self.waiting.pop_front();
        self.holder = next.as_ref().map(|(ticket, _)| *ticket);
        next.map(|(_, waker)| waker)
    }

    /// A place in the queue, and whether it has the turn already.
    fn join(&mut self, waker: &Waker) -> (u64, bool) {
        self.tickets += 1;
        let ticket = self.tickets;
        let at_once = self.holder.is_none();
        if at_once {
            self.holder = Some(ticket);
        } else {
            self.waiting.push_back((ticket, waker.clone()));
        }
        (ticket, at_once)
    }

    /// Whether it has come to this one's turn; if not, how to wake it from now on.
    fn look(&mut self, ticket: u64, waker: &Waker) -> bool {
        if self.holder == Some(ticket) {
            return true;
        }
        if let Some(place) = self.place(ticket) {
            self.waiting[place].1.clone_from(waker);
        }
        false
    }

    /// Tickets are in order, whoever has left.
    fn place(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}

impl<'a, T: Clone> Future for Taking<'a, T> {
    type Output = (Turn<'a, T>, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let turns = self.turns;
        let mut queue = turns.lock();
        let (ticket, is_mine) = match self.ticket {
            None => queue.join(context.waker()),
            Some(ticket) => (ticket, queue.look(ticket, context.waker())),
        };
        // Once it is a turn, it is the turn that must be ended, and not the wait.
        self.ticket = (!is_mine).then_some(ticket);
        if is_mine {
            Poll::Ready((Turn { turns, left: None }, queue.value.clone()))
        } else {
            Poll::Pending
        }
    }
}

impl<T> Drop for Taking<'_, T> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut queue = self.turns.lock();
        let next = if queue.holder == Some(ticket) {
            queue.hand_on()
        } else {
            let place = queue.place(ticket);
            place.and_then(|place| queue.waiting.remove(place));
            None
        };
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        // What was there is dropped with this turn, outside the lock: what that takes is its own
        // affair.
        if let Some(left) = &mut self.left {
            mem::swap(left, &mut queue.value);
        }
        let next = queue.hand_on();
        drop(queue);
        // So is this: whoever is woken may want the lock at once.
        if let Some(next) = next {
            next.wake();
        }
    }
}
