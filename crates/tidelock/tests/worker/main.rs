//! The worker, with work that is not a reaction, in memory with simulated time; and queues for
//! workers of any kind, on every store.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod doctor;
mod durations;
mod jobs;
mod jobs_processes;
mod key_limits;
mod leftovers;
mod pauses;
mod queues;
mod rates;
mod schedules;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::{
    Clock, Commit, ItemFilter, ItemQuery, ItemRef, Mark, MemoryStore, QueueName, Store, StoreExt,
    Wake, WorkerName,
};
use tidelock::worker::{
    LeasedTask, QueueHandler, QueueOptions, TaskFuture, Worker, WorkerOptions, each,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A clock that follows the runtime's time.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_893_456_000_000_000).unwrap().plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::with_clock(Arc::new(RuntimeClock(Instant::now()))))
}

async fn wake(store: &Arc<dyn Store>, items: usize) {
    for nth in 0..items {
        let item = ItemRef::parse("work", &format!("item-{nth}")).unwrap();
        let wake = Wake::to_mark(item, Mark::new(1).unwrap());
        store.commit(Commit::new().wake(wake)).await.unwrap().committed().unwrap();
    }
}

async fn items(store: &Arc<dyn Store>) -> Vec<tidelock::store::Item> {
    store.rows(ItemQuery::new(ItemFilter::queue("work"))).all().await.unwrap()
}

/// Counts concurrent work, waits for the gate, and acks; but panics on items that are named so.
struct Gated {
    gate: Arc<Semaphore>,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    panic_once: Arc<AtomicUsize>,
}

impl Gated {
    fn new(open: usize) -> Self {
        let (now, most, panic_once) = Default::default();
        Self { gate: Arc::new(Semaphore::new(open)), now, most, panic_once }
    }
}

impl QueueHandler for Gated {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let (gate, now, most) = (self.gate.clone(), self.now.clone(), self.most.clone());
        let panics = self.panic_once.clone();
        each(tasks, move |task| {
            let (gate, now, most, panics) =
                (gate.clone(), now.clone(), most.clone(), panics.clone());
            async move {
                assert_eq!(panics.swap(0, Ordering::SeqCst), 0, "as it was told to");
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                now.fetch_sub(1, Ordering::SeqCst);
                task.settle(task.lease().ack()).await
            }
        })
    }
}

fn options(max_concurrency: usize) -> WorkerOptions {
    WorkerOptions { max_concurrency, ..WorkerOptions::new(WorkerName::new("one").unwrap()) }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(600), "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn queue() -> QueueName {
    QueueName::new("work").unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_more_items_are_worked_on_at_once_than_the_pool_and_the_queue_allow() {
    for (slots, limit, expected) in [(3, 100, 3), (100, 2, 2)] {
        let (store, work, stop) = (store(), Gated::new(0), CancellationToken::new());
        let (gate, most) = (work.gate.clone(), work.most.clone());
        wake(&store, 20).await;
        let served = QueueOptions::new(&queue(), Arc::new(work)).max_concurrency(limit);
        let worker = Worker::new(store.clone(), options(slots)).serve(served);
        let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        until("as many as may are at it", async || most.load(Ordering::SeqCst) == expected).await;
        let held = items(&store).await.iter().filter(|item| item.holder.is_some()).count();
        assert_eq!(held, expected, "and no more are leased");
        gate.add_permits(20);
        until("all are done", async || items(&store).await.iter().all(|item| item.at.get() == 1))
            .await;
        stop.cancel();
        assert_eq!(running.await.unwrap().unwrap().still_running, 0);
        assert_eq!(most.load(Ordering::SeqCst), expected);
    }
}

/// REACT-8.
#[tokio::test(start_paused = true)]
async fn work_that_outlasts_a_shutdown_is_neither_acked_nor_released() {
    let (store, work, stop) = (store(), Gated::new(0), CancellationToken::new());
    let now = work.now.clone();
    wake(&store, 1).await;
    let worker =
        Worker::new(store.clone(), options(4)).serve(QueueOptions::new(&queue(), Arc::new(work)));
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    until("it is at it", async || now.load(Ordering::SeqCst) == 1).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap().still_running, 1);
    let item = items(&store).await.pop().unwrap();
    assert!(item.holder.is_some() && item.at == Mark::ZERO && item.settled.is_none(), "{item:?}");
}

/// Panics before there is a future: on one item, or on all that were leased together.
struct Hasty {
    panics: Arc<AtomicUsize>,
    by_itself: bool,
}

impl Hasty {
    fn panic_once(panics: &AtomicUsize) {
        assert_eq!(panics.swap(0, Ordering::SeqCst), 0, "before there is a future");
    }
}

impl QueueHandler for Hasty {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        if !self.by_itself {
            Self::panic_once(&self.panics);
        }
        let panics = self.panics.clone();
        each(tasks, move |task| {
            Self::panic_once(&panics);
            async move { task.settle(task.lease().ack()).await }
        })
    }
}

/// Schedule 115. REACT-9. Only what was started together counts as failed, and the queue is still
/// served.
#[tokio::test(start_paused = true)]
async fn work_that_panics_before_it_starts_is_retried_and_the_worker_continues() {
    for (by_itself, failed) in [(true, 1), (false, 3)] {
        let (store, stop) = (store(), CancellationToken::new());
        let work = Hasty { panics: Arc::new(AtomicUsize::new(1)), by_itself };
        wake(&store, 3).await;
        let worker = Worker::new(store.clone(), options(3))
            .serve(QueueOptions::new(&queue(), Arc::new(work)));
        let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        let failures =
            async || items(&store).await.iter().filter(|item| item.failures == 1).count();
        until("it has failed", async || failures().await == failed).await;
        until("all are done", async || items(&store).await.iter().all(|item| item.at.get() == 1))
            .await;
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

/// LIMIT-1. It refuses to run instead of leasing nothing.
#[tokio::test(start_paused = true)]
async fn a_worker_with_a_lease_that_no_store_grants_does_not_run() {
    for lease in
        [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(8 * 24 * 3600), Duration::MAX]
    {
        let served = QueueOptions::new(&queue(), Arc::new(Gated::new(0))).lease(lease);
        let worker = Worker::new(store(), options(1)).serve(served);
        let running = worker.run_until(std::future::pending());
        let refused =
            tokio::time::timeout(Duration::from_secs(600), running).await.unwrap().unwrap_err();
        assert!(refused.to_string().contains("queue \"work\": a lease of "), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_is_retried_and_the_worker_continues() {
    let (store, work, stop) = (store(), Gated::new(100), CancellationToken::new());
    work.panic_once.store(1, Ordering::SeqCst);
    wake(&store, 3).await;
    let worker =
        Worker::new(store.clone(), options(1)).serve(QueueOptions::new(&queue(), Arc::new(work)));
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    until("one has failed", async || items(&store).await.iter().any(|item| item.failures == 1))
        .await;
    let failed = items(&store).await.into_iter().find(|item| item.failures == 1).unwrap();
    assert!(failed.error.unwrap().contains("panicked"));
    until("all are done", async || items(&store).await.iter().all(|item| item.at.get() == 1)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Schedule 107. By default, work that never ends counts as failed, and its slot is reused.
#[tokio::test(start_paused = true)]
async fn work_that_never_ends_is_dropped_counted_and_retried_and_its_slot_is_free() {
    let (store, work, stop) = (store(), Gated::new(0), CancellationToken::new());
    let gate = work.gate.clone();
    wake(&store, 2).await;
    let worker =
        Worker::new(store.clone(), options(1)).serve(QueueOptions::new(&queue(), Arc::new(work)));
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let had_it = async || items(&store).await.iter().all(|item| item.attempts == 1);
    until("both have had the only slot", had_it).await;
    let failed = items(&store).await.into_iter().find(|item| item.failures == 1).unwrap();
    assert_eq!(failed.error.as_deref(), Some("timed out after 5m"));
    gate.add_permits(2);
    until("all are done", async || items(&store).await.iter().all(|item| item.at.get() == 1)).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap().still_running, 0);
}

/// Schedule 109. A worker's work ends with the worker's future: nothing is settled, and leases
/// expire.
#[tokio::test(start_paused = true)]
async fn a_worker_whose_future_is_dropped_stops() {
    let (store, work) = (store(), Gated::new(0));
    let (gate, now) = (work.gate.clone(), work.now.clone());
    wake(&store, 2).await;
    let worker =
        Worker::new(store.clone(), options(1)).serve(QueueOptions::new(&queue(), Arc::new(work)));
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    until("it is at it", async || now.load(Ordering::SeqCst) == 1).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    gate.add_permits(2);
    let ran_out = async || {
        let now = store.now().await.unwrap();
        items(&store)
            .await
            .iter()
            .filter_map(|item| item.holder.as_ref())
            .all(|holder| holder.deadline < now)
    };
    until("its lease ran out", ran_out).await;
    let items = items(&store).await;
    assert!(items.iter().all(|item| item.at == Mark::ZERO && item.settled.is_none()), "{items:?}");
    assert_eq!(
        items.iter().filter(|item| item.attempts == 1).count(),
        1,
        "nothing more was leased"
    );
}
