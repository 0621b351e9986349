//! The queue of turns, on every schedule that an explorer comes up with.
//!
//! This is the very file that scopes use, on a lock that knows who could go next and chooses. An
//! explorer that finds nothing must first find something: a queue that loses a turn, and a count
//! that is made without one.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "../src/scopes/fair_mutex.rs"]
mod fair_mutex;

use std::future::{Future, poll_fn};
use std::mem;
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Arc as StdArc;
use std::sync::Mutex as StdMutex;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use shuttle::{check_pct, check_random, thread};

use fair_mutex::{Acquire, FairMutex};

const SCHEDULES: usize = 2_000;

/// A queue that outlives the threads of its schedule.
fn mutex() -> &'static FairMutex<u32> {
    Box::leak(Box::new(FairMutex::new(0)))
}

/// Takes a place in the queue, and says whether it is the first.
fn join(acquire: &mut Acquire<'static, u32>) -> bool {
    pin!(acquire).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Adds to a count in two steps, as whoever has the turn may.
fn count(counter: &AtomicU32) {
    let before = counter.load(Ordering::SeqCst);
    thread::yield_now();
    counter.store(before + 1, Ordering::SeqCst);
}

fn counted_by_three(take: impl Fn(&'static FairMutex<u32>, &AtomicU32) + Send + Copy + 'static) {
    let (mutex, counter) = (mutex(), StdArc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || take(mutex, &counter))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::SeqCst).max(mutex.get()), 3);
}

/// One who goes away at any moment: before, while, or just after the turn was handed to it.
fn with_one_who_leaves(leave: fn(Acquire<'static, u32>)) {
    let mutex = mutex();
    let holder = thread::spawn(move || {
        let (guard, _) = block_on(mutex.lock());
        thread::yield_now();
        drop(guard);
    });
    let leaving = thread::spawn(move || {
        let mut acquire = mutex.lock();
        if !join(&mut acquire) {
            thread::yield_now();
            leave(acquire);
        }
    });
    let waiting = thread::spawn(move || drop(block_on(mutex.lock())));
    for thread in [holder, leaving, waiting] {
        thread.join().unwrap();
    }
    drop(block_on(mutex.lock()));
}

/// The control: without a turn, the explorer finds the addition that is lost.
#[test]
fn the_explorer_finds_a_count_that_is_made_without_a_turn() {
    let without = || check_random(|| counted_by_three(|_, counter| count(counter)), SCHEDULES);
    assert!(catch_unwind(without).is_err());
}

/// The control: if one who leaves takes the turn along, the explorer finds those who wait for ever.
#[test]
fn the_explorer_finds_a_turn_that_is_lost_with_its_waiter() {
    let forgetful = || check_random(|| with_one_who_leaves(mem::forget), SCHEDULES);
    assert!(catch_unwind(forgetful).is_err());
}

/// SCOPE-1.
#[test]
fn no_two_have_the_turn_at_once() {
    let take = |mutex: &'static FairMutex<u32>, counter: &AtomicU32| {
        let (guard, before) = block_on(mutex.lock());
        count(counter);
        assert_eq!(
            counter.load(Ordering::SeqCst),
            before + 1,
            "what is given is what the one before left"
        );
        guard.release_with(before + 1);
    };
    check_random(move || counted_by_three(take), SCHEDULES);
    check_pct(move || counted_by_three(take), SCHEDULES, 3);
}

/// SCOPE-2. Schedule 51.
#[test]
fn one_who_leaves_at_any_moment_takes_nobodys_turn_along() {
    check_random(|| with_one_who_leaves(drop), SCHEDULES);
    check_pct(|| with_one_who_leaves(drop), SCHEDULES, 3);
}

/// SCOPE-2: whoever waits looks up once it is told to, whatever moment that is.
#[test]
fn one_who_is_told_to_look_up_does() {
    let told_while_it_waits = || {
        let (mutex, is_over) = (mutex(), StdArc::new(AtomicBool::new(false)));
        let (first, _) = block_on(mutex.lock());
        let over = is_over.clone();
        let waiting = thread::spawn(move || {
            let mut acquire = pin!(mutex.lock());
            block_on(poll_fn(|context| match acquire.as_mut().poll(context) {
                Poll::Pending if !over.load(Ordering::SeqCst) => Poll::Pending,
                _ => Poll::Ready(()),
            }));
        });
        is_over.store(true, Ordering::SeqCst);
        mutex.wake_all();
        waiting.join().unwrap();
        drop(first);
        drop(block_on(mutex.lock()));
    };
    check_random(told_while_it_waits, SCHEDULES);
    check_pct(told_while_it_waits, SCHEDULES, 3);
}

/// SCOPE-1. Schedule 51: whoever has left, the rest come in the order in which they came.
#[test]
fn those_who_stay_have_their_turns_in_the_order_in_which_they_came() {
    let in_order = || {
        let (mutex, order) = (mutex(), StdArc::new(StdMutex::new(Vec::new())));
        let (first, _) = block_on(mutex.lock());
        let mut waiting: Vec<_> = (0..4).map(|_| mutex.lock()).collect();
        assert!(waiting.iter_mut().all(|acquire| !join(acquire)), "the turn is taken");
        let mut threads = vec![thread::spawn(move || drop(first))];
        for (nth, acquire) in waiting.into_iter().enumerate() {
            let order = order.clone();
            threads.push(thread::spawn(move || {
                if nth == 1 {
                    return drop(acquire);
                }
                let (guard, _) = block_on(acquire);
                order.lock().unwrap().push(nth);
                drop(guard);
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 2, 3]);
    };
    check_random(in_order, SCHEDULES);
    check_pct(in_order, SCHEDULES, 3);
}

/// What the queue is built on: a wait that is over says so once, and a turn that was had at once
/// needs no wait.
#[test]
fn a_free_turn_is_had_at_once() {
    check_random(
        || {
            let mutex = mutex();
            let mut acquire = mutex.lock();
            assert!(matches!(
                pin!(&mut acquire).poll(&mut Context::from_waker(Waker::noop())),
                Poll::Ready(_)
            ));
            drop(acquire);
            drop(block_on(mutex.lock()));
        },
        10,
    );
}
