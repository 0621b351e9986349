//! Turns: one at a time, first come, first served.
//!
//! Whoever ends a turn hands it to the one who has waited longest; it is never free in between, so nobody can push in. One who goes away while waiting
//! leaves the queue, and one who goes away just as the turn was handed over passes it on.
//!
//! Written on nothing but a lock and wakers, so that its schedules can be explored: `tests/turns.rs` runs this very file on another lock.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::sync::{Mutex, MutexGuard};

/// Who has the turn, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// How many tickets were given out. They say who came first.
    tickets: u64,
    /// Who has the turn, or has been handed it and does not know yet.
    holder: Option<u64>,
    /// Everybody else, in order.
    waiting: VecDeque<(u64, Waker)>,
}

/// The turn itself; dropping it hands it on.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
}

/// Waits for a turn. The place in the queue is taken when it is first polled.
#[derive(Debug)]
pub(crate) struct Taking<'a> {
    turns: &'a Turns,
    ticket: Option<u64>,
}

impl Turns {
    pub(crate) fn take(&self) -> Taking<'_> {
        Taking { turns: self, ticket: None }
    }

    fn hand_on(&self) {
        let next = self.lock().hand_on();
        // Outside the lock, which whoever is woken may want at once.
        if let Some(next) = next {
            next.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
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

impl<'a> Future for Taking<'a> {
    type Output = Turn<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Turn<'a>> {
        let (ticket, is_mine) = {
            let mut queue = self.turns.lock();
            match self.ticket {
                None => queue.join(context.waker()),
                Some(ticket) => (ticket, queue.look(ticket, context.waker())),
            }
        };
        // Once it is a turn, it is the turn that must be ended, and not the wait.
        self.ticket = (!is_mine).then_some(ticket);
        if is_mine { Poll::Ready(Turn { turns: self.turns }) } else { Poll::Pending }
    }
}

impl Drop for Taking<'_> {
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

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.hand_on();
    }
}
