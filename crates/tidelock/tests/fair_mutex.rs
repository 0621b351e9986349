//! Model check of the FIFO mutex: shuttle explores its schedules.
//!
//! Includes the source file that scopes use, on shuttle's mutex. Two controls prove that the
//! explorer finds defects: a mutex that loses the lock, and a count made without it.

// Clippy allows unwrap in tests, but not in their shared functions.
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

/// A mutex that outlives the threads of its schedule.
fn mutex() -> &'static FairMutex<u32> {
    Box::leak(Box::new(FairMutex::new(0)))
}

/// Joins the queue. Returns whether the lock was acquired immediately.
fn join(acquire: &mut Acquire<'static, u32>) -> bool {
    pin!(acquire).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Adds to a count in two steps, which is safe only under the lock.
fn count(counter: &AtomicU32) {
    let before = counter.load(Ordering::SeqCst);
    thread::yield_now();
    counter.store(before + 1, Ordering::SeqCst);
}

fn counted_by_three(add: impl Fn(&'static FairMutex<u32>, &AtomicU32) + Send + Copy + 'static) {
    let (mutex, counter) = (mutex(), StdArc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || add(mutex, &counter))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::SeqCst).max(mutex.get()), 3);
}

/// A waiter that is cancelled at any moment: before, while, or just after it was granted the lock.
fn with_a_cancelled_waiter(cancel: fn(Acquire<'static, u32>)) {
    let mutex = mutex();
    let holder = thread::spawn(move || {
        let (guard, _) = block_on(mutex.lock());
        thread::yield_now();
        drop(guard);
    });
    let cancelled = thread::spawn(move || {
        let mut acquire = mutex.lock();
        if !join(&mut acquire) {
            thread::yield_now();
            cancel(acquire);
        }
    });
    let waiting = thread::spawn(move || drop(block_on(mutex.lock())));
    for thread in [holder, cancelled, waiting] {
        thread.join().unwrap();
    }
    drop(block_on(mutex.lock()));
}

/// Control: without the lock, the explorer finds the lost addition.
#[test]
fn the_explorer_finds_a_count_made_without_the_lock() {
    let without = || check_random(|| counted_by_three(|_, counter| count(counter)), SCHEDULES);
    assert!(catch_unwind(without).is_err());
}

/// Control: if a cancelled waiter keeps the lock, the explorer finds the deadlock.
#[test]
fn the_explorer_finds_a_lock_lost_with_its_waiter() {
    let forgetful = || check_random(|| with_a_cancelled_waiter(mem::forget), SCHEDULES);
    assert!(catch_unwind(forgetful).is_err());
}

/// SCOPE-1.
#[test]
fn the_lock_is_mutually_exclusive() {
    let add = |mutex: &'static FairMutex<u32>, counter: &AtomicU32| {
        let (guard, before) = block_on(mutex.lock());
        count(counter);
        assert_eq!(
            counter.load(Ordering::SeqCst),
            before + 1,
            "the value is the one that the previous holder stored"
        );
        guard.release_with(before + 1);
    };
    check_random(move || counted_by_three(add), SCHEDULES);
    check_pct(move || counted_by_three(add), SCHEDULES, 3);
}

/// SCOPE-2. Schedule 51.
#[test]
fn a_waiter_cancelled_at_any_moment_does_not_lose_the_lock() {
    check_random(|| with_a_cancelled_waiter(drop), SCHEDULES);
    check_pct(|| with_a_cancelled_waiter(drop), SCHEDULES, 3);
}

/// SCOPE-2: a waiter is polled again after `wake_all`, at any moment.
#[test]
fn wake_all_wakes_a_waiter() {
    let woken_while_it_waits = || {
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
    check_random(woken_while_it_waits, SCHEDULES);
    check_pct(woken_while_it_waits, SCHEDULES, 3);
}

/// SCOPE-1. Schedule 51: after a cancellation the other waiters keep their FIFO order.
#[test]
fn remaining_waiters_acquire_the_lock_in_fifo_order() {
    let in_order = || {
        let (mutex, order) = (mutex(), StdArc::new(StdMutex::new(Vec::new())));
        let (first, _) = block_on(mutex.lock());
        let mut waiting: Vec<_> = (0..4).map(|_| mutex.lock()).collect();
        assert!(waiting.iter_mut().all(|acquire| !join(acquire)), "the lock is held");
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

/// A free lock is acquired at the first poll, and dropping the completed future releases nothing.
#[test]
fn a_free_lock_is_acquired_immediately() {
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
