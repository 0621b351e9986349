//! Rates of jobs over all processes, on every store, over two handles as in two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::AppBuilder;
use tidelock::jobs::{JobFilter, JobOptions, JobState};
use tidelock::prelude::*;
use tidelock_test_stage::{Running, Tally, TestStore, brisk, in_memory, on_every_store, until};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Four in an hour.
#[derive(Serialize, Deserialize)]
struct Call;

impl Job for Call {
    const QUEUE: &'static str = "calls";

    fn options() -> JobOptions {
        JobOptions::new().rate(4, HOUR)
    }
}

/// Four in four minutes.
#[derive(Serialize, Deserialize)]
struct Visit;

impl Job for Visit {
    const QUEUE: &'static str = "visits";

    fn options() -> JobOptions {
        JobOptions::new().rate(4, 4 * MINUTE)
    }
}

/// Many in a second, each after the other.
#[derive(Serialize, Deserialize)]
struct Ping;

impl Job for Ping {
    const QUEUE: &'static str = "pings";

    fn options() -> JobOptions {
        JobOptions::new().rate(50, Duration::from_secs(1)).burst(1).global_concurrency(2)
    }
}

#[derive(Serialize, Deserialize)]
struct Free;

impl Job for Free {
    const QUEUE: &'static str = "free";
}

/// How many of each were done.
#[derive(Debug, Clone, Default)]
struct Done {
    calls: Arc<AtomicUsize>,
    visits: Arc<AtomicUsize>,
    pings: Arc<AtomicUsize>,
    free: Arc<AtomicUsize>,
}

impl Done {
    fn app(&self, tidelock: &Tidelock) -> AppBuilder {
        let (calls, visits) = (self.calls.clone(), self.visits.clone());
        let (pings, free) = (self.pings.clone(), self.free.clone());
        tidelock
            .app()
            .job(move |_: Call, _: JobCtx| counted(&calls))
            .job(move |_: Visit, _: JobCtx| counted(&visits))
            .job(move |_: Ping, _: JobCtx| counted(&pings))
            .job(move |_: Free, _: JobCtx| counted(&free))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn counted(done: &AtomicUsize) -> impl Future<Output = Result<(), HandlerError>> + use<> {
    done.fetch_add(1, Ordering::SeqCst);
    std::future::ready(Ok(()))
}

/// JOB-14. What has to wait is as if it had never been leased, and holds up no other queue.
async fn no_more_jobs_begin_than_the_rate_allows(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let done = Done::default();
    for _ in 0..20 {
        here.enqueue(&Call).await.unwrap();
    }
    let running = [
        Running::start(done.app(&here).worker(brisk("here"))),
        Running::start(done.app(&there).worker(brisk("there"))),
    ];
    until("the burst is done", async || done.calls() == 4).await;
    for _ in 0..20 {
        there.enqueue(&Free).await.unwrap();
    }
    here.enqueue(&Call).await.unwrap();
    until("the others are done", async || done.free.load(Ordering::SeqCst) == 20).await;
    for app in running {
        app.stop().await;
    }
    assert_eq!(done.calls(), 4);
    let waiting = here.jobs().list(&JobFilter::queue("calls")).all().await.unwrap();
    assert_eq!(waiting.len(), 17);
    let untouched = waiting.iter().all(|job| job.state == JobState::Queued && job.failures == 0);
    assert!(untouched, "{waiting:?}");
}

/// JOB-14. With a global concurrency beside it.
async fn every_job_gets_its_turn(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let done = Done::default();
    for _ in 0..30 {
        here.enqueue(&Ping).await.unwrap();
    }
    let running = [
        Running::start(done.app(&here).worker(brisk("here"))),
        Running::start(done.app(&there).worker(brisk("there"))),
    ];
    until("all are done", async || done.pings.load(Ordering::SeqCst) == 30).await;
    for app in running {
        app.stop().await;
    }
}

/// JOB-14. Between two jobs nothing is leased and given back.
#[test]
fn a_queue_that_waits_for_its_rate_costs_nothing() {
    in_memory(async |stage: TestStore| {
        let (done, tally) = (Done::default(), Tally::default());
        let tidelock = Tidelock::over(tally.over(stage.store().await));
        for _ in 0..100 {
            tidelock.enqueue(&Visit).await.unwrap();
        }
        let running = Running::start(done.app(&tidelock).worker(brisk("one")));
        let visits = || done.visits.load(Ordering::SeqCst);
        until("the burst is done", async || visits() == 4).await;
        tokio::time::sleep(MINUTE / 4).await;
        let (begun, commits) = (visits(), tally.commits());
        tokio::time::sleep(4 * MINUTE).await;
        assert_eq!((begun, visits()), (4, 8), "one in a minute");
        let spent = tally.commits() - commits;
        // For each job a draw and the end, and a draw that is refused.
        assert!(spent <= 4 * 3, "{spent} commits for 4 jobs");
        running.stop().await;
    });
}

#[test]
fn a_rate_of_none_and_a_burst_without_a_rate_are_refused() {
    #[derive(Serialize, Deserialize)]
    struct Never;
    impl Job for Never {
        const QUEUE: &'static str = "never";
        fn options() -> JobOptions {
            JobOptions::new().rate(0, HOUR)
        }
    }
    #[derive(Serialize, Deserialize)]
    struct Burst;
    impl Job for Burst {
        const QUEUE: &'static str = "burst";
        fn options() -> JobOptions {
            JobOptions::new().burst(2)
        }
    }
    let tidelock = Tidelock::over(Arc::new(tidelock::store::MemoryStore::new()));
    let refused = tidelock.app().job(async |_: Never, _| Ok(())).build().unwrap_err().to_string();
    assert!(refused.contains("a rate of 0 in 3600s"), "{refused}");
    let refused = tidelock.app().job(async |_: Burst, _| Ok(())).build().unwrap_err().to_string();
    assert!(refused.contains("a burst without a rate"), "{refused}");
}

on_every_store!(no_more_jobs_begin_than_the_rate_allows, every_job_gets_its_turn);
