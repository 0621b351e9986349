//! Positive controls: stores that break one promise each, and the suite that must notice.
//!
//! A suite that passes on everything proves nothing. Each store here is the in-memory store with
//! one thing undone. The cases of that promise must be among those that fail, while most of the
//! others still pass.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_store::{
    Bounds, Change, Commit, CommitOutcome, EventId, ItemFilter, ItemQuery, NamePattern, Result,
    Store, StoreLayer,
};
use tidelock_store_conformance::{
    MemorySubject, Report, Runs, Subject, check_differential, run_quietly,
};

/// What a broken store does to a commit before the in-memory store sees it.
#[async_trait]
trait Flaw: Debug + Default + Send + Sync + 'static {
    async fn spoil(&self, commit: Commit, store: &dyn Store) -> Commit;
}

/// Accepts every lease as the current one.
#[derive(Debug, Default)]
struct IgnoresFences;

#[async_trait]
impl Flaw for IgnoresFences {
    async fn spoil(&self, mut commit: Commit, store: &dyn Store) -> Commit {
        let settled = commit.settlements.iter_mut().map(|settlement| &mut settlement.lease);
        for lease in settled.chain(&mut commit.fences) {
            let filter = ItemFilter::queue(lease.item.queue.as_str());
            let filter = filter.key(NamePattern::is(lease.item.key.as_str()));
            let found = store.items(ItemQuery::new(filter)).await.expect("memory answers").items;
            lease.fence = found.first().and_then(|item| item.fence).unwrap_or(lease.fence);
        }
        commit
    }
}

/// Treats every event as new.
#[derive(Debug, Default)]
struct ForgetsEventIds {
    seen: Mutex<HashSet<EventId>>,
}

#[async_trait]
impl Flaw for ForgetsEventIds {
    async fn spoil(&self, mut commit: Commit, _: &dyn Store) -> Commit {
        let mut seen = self.seen.lock().expect("nothing panics while it is held");
        for event in commit.appends.iter_mut().flat_map(|append| &mut append.events) {
            if !seen.insert(event.id) {
                event.id = EventId::fresh();
            }
        }
        commit
    }
}

/// Ignores the bounds of counters.
#[derive(Debug, Default)]
struct IgnoresBounds;

#[async_trait]
impl Flaw for IgnoresBounds {
    async fn spoil(&self, mut commit: Commit, _: &dyn Store) -> Commit {
        for write in &mut commit.writes {
            if let Change::Add { within, .. } = &mut write.change {
                *within = Bounds::NONE;
            }
        }
        commit
    }
}

fn report<F: Flaw>() -> Report {
    run_quietly(|| async { BrokenSubject::<F>::default() })
}

/// Asserts that a case of this promise failed, that the model noticed, and that not everything is
/// broken.
fn assert_noticed(report: &Report, promise: &str) {
    let failed = |name: &str| report.failed.iter().any(|failed| failed.contains(name));
    assert!(
        failed(&format!("{promise}]")) || failed(&format!("{promise} ")),
        "{promise}: {report:?}"
    );
    assert!(failed("model::random_histories_match_the_model"), "{report:?}");
    assert!(report.passed > report.failed.len(), "{report:?}");
}

#[test]
fn a_store_that_ignores_fences_fails_the_suite() {
    let report = report::<IgnoresFences>();
    assert_noticed(&report, "LEASE-5");
    let schedule_17 = "leases::lost::an_ack_after_a_takeover_is_refused";
    assert!(report.failed.iter().any(|name| name.starts_with(schedule_17)), "{report:?}");
}

#[test]
fn a_store_that_forgets_event_ids_fails_the_suite() {
    assert_noticed(&report::<ForgetsEventIds>(), "LOG-5");
}

#[test]
fn a_store_that_ignores_bounds_fails_the_suite() {
    let report = report::<IgnoresBounds>();
    assert_noticed(&report, "REC-4");
    let schedule_62 = "contention::records::the_last_unit_goes_to_one_of_64";
    assert!(report.failed.iter().any(|name| name.starts_with(schedule_62)), "{report:?}");
}

#[test]
fn a_store_with_no_flaw_passes_the_suite() {
    let report = run_quietly(|| async { MemorySubject::default() });
    assert_eq!(report.failed, Vec::<String>::new());
}

#[test]
#[should_panic(expected = "the first store says")]
fn a_store_that_ignores_bounds_is_told_from_one_that_does_not() {
    let broken = || async { BrokenSubject::<IgnoresBounds>::default() };
    check_differential(|| async { MemorySubject::default() }, broken, Runs::new(64));
}

#[test]
fn two_stores_without_flaws_are_not_told_apart() {
    let memory = || async { MemorySubject::default() };
    check_differential(memory, memory, Runs::new(64));
}

/// The in-memory store on its clock, behind the flaw.
#[derive(Debug, Default)]
struct BrokenSubject<F> {
    memory: MemorySubject,
    flaw: Arc<F>,
}

#[async_trait]
impl<F: Flaw> Subject for BrokenSubject<F> {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(BrokenStore { store: self.memory.open().await, flaw: self.flaw.clone() })
    }

    async fn advance(&self, duration: Duration) {
        self.memory.advance(duration).await;
    }

    async fn set_forward(&self, duration: Duration) {
        self.memory.set_forward(duration).await;
    }

    async fn set_back(&self, duration: Duration) {
        self.memory.set_back(duration).await;
    }

    async fn sweep(&self) {
        self.memory.sweep().await;
    }
}

#[derive(Debug)]
struct BrokenStore<F> {
    store: Arc<dyn Store>,
    flaw: Arc<F>,
}

#[async_trait]
impl<F: Flaw> StoreLayer for BrokenStore<F> {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let spoilt = self.flaw.spoil(commit, &*self.store).await;
        self.store.commit(spoilt).await
    }
}
