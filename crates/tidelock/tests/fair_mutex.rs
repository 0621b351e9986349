//! The FIFO mutex, model-checked over its schedules.
//!
//! This is the very file that scopes use, on a scheduler that explores interleavings. Controls show
//! that the explorer finds defects: a mutex that loses its lock, and a counter without one.

// Clippy allows unwrap in tests, but not in their helpers.
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

use fair_mutex::{Taking, Turns};

const SCHEDULES: usize = 2_000;

/// A mutex that outlives the threads of its schedule.
fn turns() -> &'static Turns<u32> {
    Box::leak(Box::new(Turns::at(0)))
}

/// Joins the queue, and returns whether it is first.
fn join(taking: &mut Taking<'static, u32>) -> bool {
    pin!(taking).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Increments a counter in two steps, as the lock's holder may.
fn count(counter: &AtomicU32) {
    let before = counter.load(Ordering::SeqCst);
    thread::yield_now();
    counter.store(before + 1, Ordering::SeqCst);
}

fn counted_by_three(take: impl Fn(&'static Turns<u32>, &AtomicU32) + Send + Copy + 'static) {
    let (turns, counter) = (turns(), StdArc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || take(turns, &counter))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::SeqCst).max(turns.look()), 3);
}

/// One waiter that leaves at any moment: before, while, or just after the lock is handed to it.
fn with_a_leaving_waiter(leave: fn(Taking<'static, u32>)) {
    let turns = turns();
    let holder = thread::spawn(move || {
        let (turn, _) = block_on(turns.take());
        thread::yield_now();
        drop(turn);
    });
    let leaving = thread::spawn(move || {
        let mut taking = turns.take();
        if !join(&mut taking) {
            thread::yield_now();
            leave(taking);
        }
    });
    let waiting = thread::spawn(move || drop(block_on(turns.take())));
    for thread in [holder, leaving, waiting] {
        thread.join().unwrap();
    }
    drop(block_on(turns.take()));
}

/// The control: without the lock, the explorer finds the lost update.
#[test]
fn the_explorer_finds_a_count_that_is_made_without_a_turn() {
    let without = || check_random(|| counted_by_three(|_, counter| count(counter)), SCHEDULES);
    assert!(catch_unwind(without).is_err());
}

/// The control: if a leaving waiter keeps the lock, the explorer finds the deadlock.
#[test]
fn the_explorer_finds_a_turn_that_is_lost_with_its_waiter() {
    let forgetful = || check_random(|| with_a_leaving_waiter(mem::forget), SCHEDULES);
    assert!(catch_unwind(forgetful).is_err());
}

/// SCOPE-1.
#[test]
fn no_two_have_the_turn_at_once() {
    let take = |turns: &'static Turns<u32>, counter: &AtomicU32| {
        let (turn, before) = block_on(turns.take());
        count(counter);
        assert_eq!(
            counter.load(Ordering::SeqCst),
            before + 1,
            "what is given is what the one before left"
        );
        turn.leave(before + 1);
    };
    check_random(move || counted_by_three(take), SCHEDULES);
    check_pct(move || counted_by_three(take), SCHEDULES, 3);
}

/// SCOPE-2. Schedule 51.
#[test]
fn a_waiter_that_leaves_at_any_moment_loses_no_lock() {
    check_random(|| with_a_leaving_waiter(drop), SCHEDULES);
    check_pct(|| with_a_leaving_waiter(drop), SCHEDULES, 3);
}

/// SCOPE-2: a notified waiter wakes up, at any moment.
#[test]
fn a_notified_waiter_wakes_up() {
    let told_while_it_waits = || {
        let (turns, is_over) = (turns(), StdArc::new(AtomicBool::new(false)));
        let (first, _) = block_on(turns.take());
        let over = is_over.clone();
        let waiting = thread::spawn(move || {
            let mut taking = pin!(turns.take());
            block_on(poll_fn(|context| match taking.as_mut().poll(context) {
                Poll::Pending if !over.load(Ordering::SeqCst) => Poll::Pending,
                _ => Poll::Ready(()),
            }));
        });
        is_over.store(true, Ordering::SeqCst);
        turns.wake_all();
        waiting.join().unwrap();
        drop(first);
        drop(block_on(turns.take()));
    };
    check_random(told_while_it_waits, SCHEDULES);
    check_pct(told_while_it_waits, SCHEDULES, 3);
}

/// SCOPE-1. Schedule 51: whichever waiter leaves, the others keep their order.
#[test]
fn remaining_waiters_keep_their_order() {
    let in_order = || {
        let (turns, order) = (turns(), StdArc::new(StdMutex::new(Vec::new())));
        let (first, _) = block_on(turns.take());
        let mut waiting: Vec<_> = (0..4).map(|_| turns.take()).collect();
        assert!(waiting.iter_mut().all(|taking| !join(taking)), "the turn is taken");
        let mut threads = vec![thread::spawn(move || drop(first))];
        for (nth, taking) in waiting.into_iter().enumerate() {
            let order = order.clone();
            threads.push(thread::spawn(move || {
                if nth == 1 {
                    return drop(taking);
                }
                let (turn, _) = block_on(taking);
                order.lock().unwrap().push(nth);
                drop(turn);
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 2, 3]);
    };
    check_random(in_order, SCHEDULES);
    check_pct(in_order, SCHEDULES, 3);
}

/// A wait ends once, and an uncontended lock needs no wait.
#[test]
fn a_free_turn_is_had_at_once() {
    check_random(
        || {
            let turns = turns();
            let mut taking = turns.take();
            assert!(matches!(
                pin!(&mut taking).poll(&mut Context::from_waker(Waker::noop())),
                Poll::Ready(_)
            ));
            drop(taking);
            drop(block_on(turns.take()));
        },
        10,
    );
}
