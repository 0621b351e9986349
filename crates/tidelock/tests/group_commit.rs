//! Model check of group commit: shuttle explores its schedules.
//!
//! Includes the source files that events and scopes use, on shuttle's mutex, with a toy target: a
//! list of numbers. Callers share a store that fails before or after a commit, another process
//! writes too, and callers are cancelled at every await. A control proves that the explorer finds
//! defects.

// Clippy allows unwrap in tests, but not in their shared functions.
#![allow(clippy::unwrap_used)]

#[path = "../src/group_commit/batch.rs"]
#[allow(dead_code)] // as much of it as the toy needs
mod batch;
#[path = "../src/group_commit/cache.rs"]
#[allow(dead_code)] // as much of it as the toy needs
mod cache;
#[path = "../src/group_commit/entry.rs"]
#[allow(dead_code)] // as much of it as the toy needs
mod entry;
#[path = "../src/group_commit/target.rs"]
#[allow(dead_code)] // as much of it as the toy needs
mod target;

mod sync {
    pub(super) use shuttle::sync::{Mutex, MutexGuard};
}

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use shuttle::future::{block_on, yield_now};
use shuttle::rand::{Rng, thread_rng};
use shuttle::{check_pct, check_random, thread};
use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, EventType, ExpectedVersion, MemoryStore, NewEvent,
    RawJson, Result, RetryAdvice, Store, StoreError, StoreErrorKind, StoreExt, StoreOperation,
    StreamName, Version,
};

use batch::{Outcome, Waiter};
use cache::{CacheEntry, StateCache};
use entry::{Confirmed, Entry, View};
use target::{Submit, Target};

const SCHEDULES: usize = 3_000;

/// Numbers of another process begin here.
const THEIRS: u8 = 100;

/// A list of numbers: the cached state of the toy stream.
#[derive(Default)]
struct List {
    stored: Option<Vec<u8>>,
    is_stale: bool,
    pending: VecDeque<u8>,
}

impl Target for List {
    type Key = StreamName;
    type View = Vec<u8>;
    type Change = u8;
    type Changes = Vec<u8>;
    type Share = ();
    type Expected = usize;
    type Receipt = usize;

    fn view(&mut self) -> Option<Vec<u8>> {
        let mut numbers = self.stored.clone()?;
        if self.pending.is_empty() && self.is_stale {
            return None;
        }
        WAITING.with_borrow(|waiting| {
            assert!(
                self.pending.is_empty() || !waiting.is_empty(),
                "pending changes have a waiter: nothing is sent for callers that are gone"
            );
        });
        numbers.extend(&self.pending);
        Some(numbers)
    }

    fn expected(view: &Vec<u8>) -> usize {
        view.len()
    }

    fn has_room(changes: &Vec<u8>, _: &u8) -> bool {
        changes.len() < 2
    }

    fn add(&mut self, changes: &mut Vec<u8>, number: u8) {
        self.pending.push_back(number);
        changes.push(number);
    }

    fn seal(stream: &StreamName, expected: usize, changes: &mut Vec<u8>) -> Commit {
        let version = Version::new(expected as u64).ok();
        let expected = version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
        Commit::new().append(stream, expected, changes.iter().map(|number| event(*number)))
    }

    fn landed(state: Option<&mut Self>, changes: &Vec<u8>, committed: &Committed) -> usize {
        let version = usize::try_from(committed.appends[0].version.get()).unwrap();
        if let Some(state) = state {
            let stored = state.stored.as_mut().unwrap();
            stored.extend(changes);
            assert_eq!(stored.len(), version, "the batches land in order");
            assert!(state.pending.drain(..changes.len()).eq(changes.iter().copied()));
        }
        version
    }

    fn after(version: &usize) -> usize {
        *version
    }

    fn discard(&mut self, _: &StreamName, _: Option<&Conflict>) {
        self.pending.clear();
        self.is_stale = true;
    }

    fn invalidate(&mut self) {
        self.is_stale = true;
    }

    fn clear(&mut self) {
        self.stored = None;
    }

    fn is_worth_caching(&self) -> bool {
        self.stored.is_some()
    }
}

thread_local! {
    /// Callers that wait for a batch. A schedule's threads share one thread of the system.
    static WAITING: RefCell<BTreeSet<u8>> = const { RefCell::new(BTreeSet::new()) };
    /// The entry that each caller uses.
    static ENTRIES: RefCell<BTreeMap<u8, usize>> = const { RefCell::new(BTreeMap::new()) };
}

fn event(number: u8) -> NewEvent {
    NewEvent::new(EventType::new("number").unwrap(), RawJson::new(&number).unwrap())
}

fn unavailable(advice: RetryAdvice) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, advice, StoreOperation::Commit, "as asked for")
}

/// What happens in one schedule.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Number of entries cached.
    capacity: usize,
    fails: bool,
    cancels: bool,
    /// Number of changes of another process.
    theirs: u8,
    /// A defect: answers without a commit are not confirmed.
    unconfirmed: bool,
}

struct World {
    plan: Plan,
    store: MemoryStore,
    cache: Arc<StateCache<StreamName>>,
    stream: StreamName,
}

/// How a call ended.
#[derive(Debug)]
enum End {
    /// Decided on these numbers.
    Landed(Vec<u8>),
    /// Changed nothing, on these numbers; this many were stored when the call began.
    Unchanged(Vec<u8>, usize),
    Failed(StoreError),
    Cancelled,
}

impl Submit for World {
    async fn submit(&self, commit: &Commit) -> Result<CommitOutcome> {
        yield_now().await;
        let fault = if self.plan.fails { thread_rng().gen_range(0..6) } else { 9 };
        if fault == 0 {
            return Err(unavailable(RetryAdvice::Later));
        }
        let outcome = self.store.commit(commit.clone()).await;
        yield_now().await;
        match fault {
            1 => Err(unavailable(RetryAdvice::Unknown)),
            _ => outcome,
        }
    }
}

impl World {
    fn new(plan: Plan) -> Arc<Self> {
        WAITING.take();
        ENTRIES.take();
        Arc::new(Self {
            plan,
            store: MemoryStore::new(),
            cache: StateCache::new(plan.capacity),
            stream: StreamName::new("toy-1").unwrap(),
        })
    }

    async fn numbers(&self) -> Vec<u8> {
        let events = self.store.read_whole_stream(&self.stream).await.unwrap();
        events.into_iter().map(|event| event.payload.to().unwrap()).collect()
    }

    /// Adds a number: 0, 4, 8 in a shared commit, 2 and 6 in its own. Odd ones change nothing.
    async fn call(&self, number: u8) -> End {
        let known = self.numbers().await.len();
        let entry = Registered::new(self.cache.entry::<List>(&self.stream), number);
        loop {
            let turn = entry.turn(|| None).await.unwrap();
            if number % 4 == 2 {
                match self.commit_alone(&entry, number).await {
                    Some(end) => return end,
                    None => continue,
                }
            }
            let view = self.view(&entry).await;
            yield_now().await;
            let seen = view.state.clone();
            let waiter = if number.is_multiple_of(4) {
                Waiting::begin(number, || entry.push(&view, number).map(|(waiter, ())| waiter))
            } else {
                let mut is_confirmed = self.plan.unconfirmed;
                let waiter = Waiting::begin(number, || match entry.confirm(&view) {
                    Confirmed::After(waiter) => Some(waiter),
                    Confirmed::Now => {
                        is_confirmed = true;
                        None
                    }
                    Confirmed::Retry => None,
                });
                if is_confirmed {
                    return End::Unchanged(seen, known);
                }
                waiter
            };
            let Some(waiter) = waiter else { continue };
            drop((turn, view));
            match waiter.waiter.outcome(self).await {
                Outcome::Landed(_) if number.is_multiple_of(4) => return End::Landed(seen),
                Outcome::Landed(_) => return End::Unchanged(seen, known),
                Outcome::Conflict(_) => assert!(self.may_conflict(), "a conflict with itself"),
                Outcome::Failed(error) => return End::Failed(error.clone()),
            }
        }
    }

    /// Commits a number on its own, behind all batches. The caller has the turn.
    async fn commit_alone(&self, entry: &Arc<Entry<List>>, number: u8) -> Option<End> {
        if let Some(tail) = entry.tail() {
            tail.outcome(self).await;
        }
        let seen = self.view(entry).await.state;
        let commit = List::seal(&self.stream, seen.len(), &mut vec![number]);
        let sent = self.submit(&commit).await;
        if !matches!(sent, Ok(CommitOutcome::Committed(_))) {
            entry.invalidate();
        }
        match sent {
            Ok(CommitOutcome::Committed(_)) => {
                entry.with(|list| list.stored.as_mut().unwrap().push(number));
                Some(End::Landed(seen))
            }
            Ok(CommitOutcome::Conflict(_)) => {
                assert!(self.may_conflict(), "a conflict with itself");
                None
            }
            Err(error) => Some(End::Failed(error)),
        }
    }

    /// Alone, without faults, expectations follow from one another.
    fn may_conflict(&self) -> bool {
        self.plan.theirs > 0 || self.plan.fails || self.plan.cancels
    }

    async fn view(&self, entry: &Arc<Entry<List>>) -> View<List> {
        if let Some(view) = entry.view() {
            return view;
        }
        let numbers = self.numbers().await;
        yield_now().await;
        entry.fresh_view(|list| {
            (list.stored, list.is_stale) = (Some(numbers.clone()), false);
            numbers
        })
    }

    /// Another process adds a number.
    async fn add_theirs(&self, number: u8) {
        let append = Commit::new().append(&self.stream, ExpectedVersion::Any, [event(number)]);
        self.store.commit(append).await.unwrap().committed().unwrap();
    }

    fn check(&self, ends: &[(u8, End)]) {
        let numbers = block_on(self.numbers());
        let at = |number: u8| numbers.iter().position(|one| *one == number);
        let distinct: BTreeSet<&u8> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len(), "each change lands once: {numbers:?}");
        for (number, end) in ends {
            match end {
                End::Landed(seen) => {
                    let before = &numbers[..at(*number).expect("what landed is stored")];
                    assert_eq!(before, seen, "{number} is behind what it was decided on");
                }
                End::Unchanged(seen, known) => {
                    assert!(numbers.starts_with(seen), "{number} saw {seen:?}, not {numbers:?}");
                    assert!(seen.len() >= *known, "{number} saw a state older than its call");
                }
                End::Failed(error) if error.advice() != RetryAdvice::Unknown => {
                    assert_eq!(at(*number), None, "{number} failed for certain: {error}");
                }
                End::Failed(_) | End::Cancelled => {}
            }
        }
    }
}

/// A cache entry in use. There is one of each key.
struct Registered {
    number: u8,
    entry: Option<CacheEntry<List>>,
}

impl Registered {
    fn new(entry: CacheEntry<List>, number: u8) -> Self {
        let address = std::ptr::from_ref::<Entry<List>>(&entry).addr();
        ENTRIES.with_borrow_mut(|entries| {
            assert!(entries.values().all(|one| *one == address), "two entries of one key");
            entries.insert(number, address);
        });
        Self { number, entry: Some(entry) }
    }
}

impl std::ops::Deref for Registered {
    type Target = Arc<Entry<List>>;

    fn deref(&self) -> &Arc<Entry<List>> {
        self.entry.as_ref().unwrap()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        ENTRIES.with_borrow_mut(|entries| entries.remove(&self.number));
        self.entry = None;
    }
}

/// A caller that waits for a batch.
struct Waiting {
    waiter: Waiter<List>,
    _registered: WaitingRegistered,
}

struct WaitingRegistered(u8);

impl Waiting {
    fn begin(number: u8, wait: impl FnOnce() -> Option<Waiter<List>>) -> Option<Self> {
        WAITING.with_borrow_mut(|waiting| waiting.insert(number));
        let _registered = WaitingRegistered(number);
        wait().map(|waiter| Self { waiter, _registered })
    }
}

/// Dropped after the waiter.
impl Drop for WaitingRegistered {
    fn drop(&mut self) {
        WAITING.with_borrow_mut(|waiting| waiting.remove(&self.0));
    }
}

/// Drops a future after some of its polls; `None` if it was not done by then.
async fn cancelled_after<F: Future>(mut polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            Poll::Pending
        }
    })
    .await
}

fn run(plan: Plan, callers: u8) {
    let world = World::new(plan);
    let theirs = thread::spawn({
        let world = world.clone();
        move || {
            for number in 0..plan.theirs {
                block_on(world.add_theirs(THEIRS + number));
                thread::yield_now();
            }
        }
    });
    let threads: Vec<_> = (0..callers)
        .map(|number| {
            let world = world.clone();
            thread::spawn(move || {
                let polls = if plan.cancels { thread_rng().gen_range(0..20) } else { u32::MAX };
                let end = block_on(cancelled_after(polls, world.call(number)));
                (number, end.unwrap_or(End::Cancelled))
            })
        })
        .collect();
    theirs.join().unwrap();
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    world.check(&ends);
    // Whatever happened, the next caller lands.
    let last = callers + callers % 2;
    let calm =
        World { plan: Plan { theirs: 1, ..Plan::default() }, ..Arc::into_inner(world).unwrap() };
    let end = block_on(calm.call(last));
    assert!(matches!(end, End::Landed(_)), "{end:?}");
    calm.check(&[(last, end)]);
}

fn explore(plan: Plan, callers: u8) {
    check_random(move || run(plan, callers), SCHEDULES);
    check_pct(move || run(plan, callers), SCHEDULES, 3);
}

/// Control: a cached state that another process has changed is found.
#[test]
fn the_explorer_finds_an_unconfirmed_answer() {
    let plan = Plan { capacity: 8, theirs: 2, unconfirmed: true, ..Plan::default() };
    assert!(catch_unwind(|| explore(plan, 4)).is_err());
}

/// EVT-1, EVT-7, SCOPE-7.
#[test]
fn changes_land_once_in_the_order_of_their_decisions() {
    explore(Plan { capacity: 8, ..Plan::default() }, 5);
    explore(Plan { capacity: 0, ..Plan::default() }, 4);
}

/// EVT-2, EVT-3, SCOPE-5, SCOPE-9.
#[test]
fn changes_of_another_process_are_seen_and_never_overwritten() {
    explore(Plan { capacity: 8, theirs: 3, ..Plan::default() }, 4);
}

/// EVT-6, SCOPE-8, COMMIT-6.
#[test]
fn a_failed_commit_takes_the_changes_on_top_with_it() {
    explore(Plan { capacity: 8, fails: true, theirs: 1, ..Plan::default() }, 5);
}

/// EVT-7, SCOPE-7.
#[test]
fn a_caller_cancelled_at_any_await_does_not_affect_others() {
    explore(Plan { capacity: 8, cancels: true, ..Plan::default() }, 5);
    explore(Plan { capacity: 0, cancels: true, fails: true, theirs: 1, ..Plan::default() }, 4);
}
