//! Limits of jobs per concurrency key, on every store, over two handles as in two processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::AppBuilder;
use tidelock::jobs::{JobFilter, JobOptions, JobState};
use tidelock::prelude::*;
use tidelock::store::{RecordKey, RecordQuery, StoreExt, WorkerName};
use tidelock::worker::WorkerOptions;
use tidelock_test_stage::{
    DyingStore, MANY, Running, Tally, TestStore, brisk, in_memory, on_every_store, until,
};
use tokio::sync::Semaphore;

const HOUR: Duration = Duration::from_secs(3_600);

/// A call for a customer, of whom at most two are served at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Call {
    customer: String,
    nth: usize,
}

impl Job for Call {
    const QUEUE: &'static str = "calls";

    fn options() -> JobOptions {
        JobOptions::new()
            .concurrency_per_key(2)
            .retry(Retry::attempts(3).backoff(Backoff::fixed(HOUR)))
    }

    fn concurrency_key(&self) -> Option<String> {
        assert_ne!(self.customer, "panics");
        (self.customer != "anyone").then(|| self.customer.clone())
    }
}

fn call(customer: &str, nth: usize) -> Call {
    Call { customer: customer.to_owned(), nth }
}

/// Counts who is served at once.
#[derive(Debug, Clone, Default)]
struct Desk(Arc<Mutex<Served>>);

#[derive(Debug, Default)]
struct Served {
    now: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
    /// The calls that were begun, in order.
    begun: Vec<(String, usize)>,
    done: usize,
}

impl Desk {
    fn begin(&self, call: &Call) {
        let mut served = self.0.lock().unwrap();
        let now = served.now.entry(call.customer.clone()).or_default();
        *now += 1;
        let now = *now;
        let most = served.most.entry(call.customer.clone()).or_default();
        *most = now.max(*most);
        served.begun.push((call.customer.clone(), call.nth));
    }

    fn end(&self, call: &Call) {
        let mut served = self.0.lock().unwrap();
        *served.now.get_mut(&call.customer).unwrap() -= 1;
        served.done += 1;
    }

    fn done(&self) -> usize {
        self.0.lock().unwrap().done
    }

    fn begun(&self, customer: &str) -> Vec<usize> {
        let served = self.0.lock().unwrap();
        served.begun.iter().filter(|(of, _)| of == customer).map(|(_, nth)| *nth).collect()
    }

    fn most(&self, customer: &str) -> usize {
        self.0.lock().unwrap().most.get(customer).copied().unwrap_or_default()
    }

    /// Serves at once.
    fn app(&self, tidelock: &Tidelock) -> AppBuilder {
        let desk = self.clone();
        tidelock.app().job(move |call: Call, ctx: JobCtx| {
            let desk = desk.clone();
            async move {
                desk.begin(&call);
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                ctx.add(format!("served/{}/{}", call.customer, call.nth), 1, ..)?;
                desk.end(&call);
                Ok(())
            }
        })
    }

    /// Serves this customer only when it is allowed to; one whose number is 99 fails.
    fn slow_app(
        &self,
        tidelock: &Tidelock,
        customer: &'static str,
        go: &Arc<Semaphore>,
    ) -> AppBuilder {
        let (desk, go) = (self.clone(), go.clone());
        tidelock.app().job(move |call: Call, _: JobCtx| {
            let (desk, go) = (desk.clone(), go.clone());
            async move {
                desk.begin(&call);
                if call.customer == customer {
                    go.acquire().await.map_err(HandlerError::fatal)?.forget();
                }
                desk.end(&call);
                match call.nth {
                    99 => Err(HandlerError::again("busy")),
                    _ => Ok(()),
                }
            }
        })
    }
}

async fn kept(tidelock: &Tidelock) -> Vec<String> {
    let mut kept = Vec::new();
    for prefix in ["~job-key/", "~job-line/"] {
        let records = tidelock.store().rows(RecordQuery::prefix(prefix)).all().await.unwrap();
        kept.extend(records.iter().map(|record| record.key.to_string()));
    }
    kept
}

/// JOB-15. Over two processes, each of which could do all of it.
async fn no_more_jobs_of_a_key_are_worked_on_than_its_limit(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let desk = Desk::default();
    for nth in 0..12 {
        for customer in ["ada", "bob/7", "anyone"] {
            here.enqueue(&call(customer, nth)).await.unwrap();
        }
    }
    let running = [
        Running::start(desk.app(&here).worker(brisk("here"))),
        Running::start(desk.app(&there).worker(brisk("there"))),
    ];
    until("all are served", async || desk.done() == 36).await;
    let idle = async || kept(&here).await.is_empty();
    until("nothing is kept of the keys", idle).await;
    for app in running {
        app.stop().await;
    }
    assert!(desk.most("ada") <= 2 && desk.most("bob/7") <= 2, "{desk:?}");
    if stage.is_simulated() {
        assert_eq!((desk.most("ada"), desk.most("bob/7"), desk.most("anyone")), (2, 2, 12));
    }
    let begun = desk.0.lock().unwrap().begun.clone();
    for (customer, nth) in begun {
        let key = RecordKey::new(format!("served/{customer}/{nth}")).unwrap();
        let times = here.store().get_one(&key).await.unwrap().into_live().unwrap().value;
        assert_eq!(times.as_str(), "1", "{key}");
    }
    assert!(here.jobs().list(&JobFilter::all()).all().await.unwrap().is_empty());
}

/// JOB-15. Jobs of other keys are done beside it; then the line moves by priority and arrival.
async fn a_line_holds_up_no_other_key_and_moves_in_order(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (desk, go) = (Desk::default(), Arc::new(Semaphore::new(0)));
    let running = Running::start(desk.slow_app(&tidelock, "hot", &go).worker(brisk("one")));
    for nth in 0..6 {
        tidelock.enqueue(&call("hot", nth)).key(format!("hot-{nth}")).await.unwrap();
        if nth == 1 {
            until("there is no room", async || desk.begun("hot").len() == 2).await;
        }
    }
    tidelock.enqueue(&call("hot", 7)).key("hot-7").priority(50).await.unwrap();
    for nth in 0..5 {
        tidelock.enqueue(&call("ada", nth)).await.unwrap();
    }
    until("the others are done", async || desk.done() == 5).await;
    let waits = async || {
        let there = tidelock.jobs().list(&JobFilter::queue("calls")).all().await.unwrap();
        there.iter().filter(|job| job.state == JobState::Scheduled).count() == 5
    };
    until("five wait in line", waits).await;
    let waiting = tidelock.jobs().list(&JobFilter::queue("calls")).all().await.unwrap();
    assert!(waiting.iter().all(|job| job.failures == 0), "{waiting:?}");
    let left = tidelock.jobs().cancel(&JobFilter::queue("calls").key("hot-3"), "hung up").await;
    assert_eq!(left.unwrap(), 1);
    for done in 6..11 {
        go.add_permits(1);
        until("the next one is served", async || desk.done() == done).await;
        until("and one more begins", async || desk.begun("hot").len() == (done - 3).min(6)).await;
    }
    go.add_permits(1);
    until("the last one is served", async || desk.done() == 11).await;
    running.stop().await;
    assert_eq!(desk.begun("hot")[2..], [7, 2, 4, 5], "by priority, then by arrival");
    assert_eq!(desk.most("hot"), 2);
}

/// JOB-15. A job that waits for its next attempt leaves its room to another one; one whose key
/// cannot be told is not limited.
async fn a_job_that_failed_makes_room(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (desk, go) = (Desk::default(), Arc::new(Semaphore::new(MANY)));
    for nth in [99, 99, 1, 2] {
        tidelock.enqueue(&call("ada", nth)).await.unwrap();
    }
    tidelock.enqueue(&call("panics", 1)).await.unwrap();
    let running = Running::start(desk.slow_app(&tidelock, "hot", &go).worker(brisk("one")));
    until("each was served", async || desk.done() == 5).await;
    let failed = async || {
        let there = tidelock.jobs().list(&JobFilter::queue("calls")).all().await.unwrap();
        there.len() == 2 && there.iter().all(|job| job.state == JobState::Retrying)
    };
    until("two are tried again later", failed).await;
    running.stop().await;
}

/// JOB-15. Thousands of one key wait, and cost nothing while they do; a job of another key is done
/// meanwhile.
#[test]
fn a_long_line_costs_nothing() {
    in_memory(async |stage: TestStore| {
        let tally = Tally::default();
        let tidelock = Tidelock::over(tally.over(stage.store().await));
        let (desk, go) = (Desk::default(), Arc::new(Semaphore::new(0)));
        let calls = (0..MANY).map(|nth| call("hot", nth));
        tidelock.enqueue_all(calls).await.unwrap();
        tidelock.enqueue(&call("ada", 1)).await.unwrap();
        let running = Running::start(desk.slow_app(&tidelock, "hot", &go).worker(brisk("one")));
        until("the other one is done", async || desk.done() == 1).await;
        assert_eq!(desk.begun("hot").len(), 2);
        let commits = tally.commits();
        // Shorter than the timeout of a handler.
        tokio::time::sleep(Duration::from_secs(200)).await;
        let spent = tally.commits() - commits;
        // The caller looks once in every lease of those that are served, and settles.
        assert!(spent < 60, "{spent} commits in 200 seconds");
        for done in 2..12 {
            go.add_permits(1);
            until("the next one is served", async || desk.done() == done).await;
        }
        assert_eq!(desk.most("hot"), 2);
        running.abandon();
    });
}

/// JOB-15. A process dies at every call of the store, before it and after it: another one works the
/// line off, and what is done is done once.
#[test]
fn a_line_is_worked_off_wherever_a_process_dies() {
    let mut died = 0;
    for last_words in [false, true] {
        for calls in 0.. {
            let mut is_dead = false;
            in_memory(async |stage: TestStore| {
                is_dead = dies_at(&stage, calls, last_words).await;
            });
            if !is_dead {
                break;
            }
            died += 1;
        }
    }
    assert!(died > 20, "it died only {died} times");
}

async fn dies_at(stage: &TestStore, calls: i64, last_words: bool) -> bool {
    let (tidelock, desk) = (stage.tidelock().await, Desk::default());
    for nth in 0..3 {
        tidelock.enqueue(&call("ada", nth)).await.unwrap();
    }
    let store = DyingStore::over(stage.store().await, calls, last_words);
    // Polls rarely: a process that only polls has no call to die at.
    let unhurried = WorkerOptions::new(WorkerName::new("mortal").unwrap());
    let app = desk.app(&Tidelock::over(store.clone())).worker(unhurried).build().unwrap();
    let mortal = tokio::spawn(app.run());
    let all = async || tidelock.jobs().list(&JobFilter::all()).all().await.unwrap().is_empty();
    until("it is dead, or all is done", async || store.is_dead() || all().await).await;
    let died = store.is_dead() && !all().await;
    mortal.abort();
    let heir = Desk::default();
    let running = Running::start(heir.app(&tidelock).worker(brisk("heir")));
    until("all is done", all).await;
    assert!(heir.most("ada") <= 2, "{heir:?}");
    for nth in 0..3 {
        let key = RecordKey::new(format!("served/ada/{nth}")).unwrap();
        let times = tidelock.store().get_one(&key).await.unwrap().into_live().unwrap().value;
        assert_eq!(times.as_str(), "1", "{key}, {calls} calls, {last_words}");
    }
    running.stop().await;
    died
}

#[test]
fn a_limit_per_key_of_none_is_refused() {
    #[derive(Serialize, Deserialize)]
    struct Never;
    impl Job for Never {
        const QUEUE: &'static str = "never";
        fn options() -> JobOptions {
            JobOptions::new().concurrency_per_key(0)
        }
    }
    let tidelock = Tidelock::over(Arc::new(tidelock::store::MemoryStore::new()));
    let refused = tidelock.app().job(async |_: Never, _| Ok(())).build().unwrap_err().to_string();
    assert!(refused.contains("a concurrency per key of 0"), "{refused}");
}

on_every_store!(
    no_more_jobs_of_a_key_are_worked_on_than_its_limit,
    a_line_holds_up_no_other_key_and_moves_in_order,
    a_job_that_failed_makes_room,
);
