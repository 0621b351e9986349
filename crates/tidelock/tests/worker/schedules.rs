//! Schedules that enqueue jobs, and schedules that are triggered.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::jobs::{JobFilter, JobInfo, JobOptions, JobState};
use tidelock::prelude::*;
use tidelock::runs::{CatchUp, Overlap, RunFilter};
use tidelock::store::{ManualClock, MemoryStore, Store};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};
use tokio::sync::Semaphore;

/// Every second: short enough for real time.
const EVERY_SECOND: &str = "* * * * * *";
/// Never within a test.
const YEARLY: &str = "0 0 1 1 *";

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    of: String,
}

impl Job for Report {
    const QUEUE: &'static str = "reports";

    fn options() -> JobOptions {
        JobOptions::new().keep_results(Duration::from_secs(30 * 24 * 3_600))
    }
}

fn report() -> Report {
    Report { of: "yesterday".to_owned() }
}

fn app(tidelock: &Tidelock, name: &str) -> Running {
    let app = tidelock.app().job(async |report: Report, ctx: JobCtx| {
        assert_eq!(report, self::report());
        ctx.add("reports", 1, ..)?;
        Ok(ctx.key().to_owned())
    });
    Running::start(app.worker(brisk(name)))
}

async fn done(tidelock: &Tidelock) -> Vec<JobInfo> {
    let done = JobFilter::queue("reports").state(JobState::Done);
    tidelock.jobs().list(&done).all().await.unwrap()
}

/// JOB-13. Over two processes.
async fn two_schedulers_enqueue_one_job_for_each_occurrence(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let schedule = || {
        Schedule::cron(EVERY_SECOND).enqueues(&report()).catch_up(CatchUp::Each { at_most: 100 })
    };
    let put = here.schedules().put("clock", schedule()).await.unwrap();
    there.schedules().put("clock", schedule()).await.unwrap();
    assert_eq!((put.queue.as_deref(), put.workflow), (Some("reports"), None));
    let running = [app(&here, "one"), app(&there, "two")];
    until("some are done", async || done(&here).await.len() >= 3).await;
    for running in running {
        running.stop().await;
    }
    let all = done(&there).await;
    for (earlier, later) in all.iter().zip(&all[1..]) {
        let moment = |job: &JobInfo| -> Timestamp {
            job.key.strip_prefix("clock@").unwrap().parse().unwrap()
        };
        assert_eq!(moment(later).since(moment(earlier)), Duration::from_secs(1), "{all:?}");
    }
    let key = tidelock::store::RecordKey::new("reports").unwrap();
    let count = tidelock::store::StoreExt::get_one(&**here.store(), &key).await.unwrap();
    assert_eq!(count.live().unwrap().value.to::<usize>().unwrap(), all.len());
}

/// JOB-13.
async fn an_occurrence_is_left_out_while_the_last_job_is_unfinished(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let go = Arc::new(Semaphore::new(0));
    let gate = go.clone();
    let app = tidelock.app().job(move |_: Report, _: JobCtx| {
        let go = gate.clone();
        async move {
            go.acquire().await.unwrap().forget();
            Ok(())
        }
    });
    let running = Running::start(app.worker(brisk("w")));
    let schedule = Schedule::cron(EVERY_SECOND).enqueues(&report()).overlap(Overlap::Skip);
    let put = tidelock.schedules().put("clock", schedule).await.unwrap();
    let next = async || tidelock.schedules().get("clock").await.unwrap().unwrap().next;
    let later = put.next.unwrap().plus(Duration::from_secs(2));
    until("occurrences have passed", async || next().await.unwrap() > later).await;
    let open = tidelock.jobs().list(&JobFilter::queue("reports")).all().await.unwrap();
    assert_eq!(open.len(), 1, "{open:?}");
    go.add_permits(1);
    until("the next one is enqueued", async || {
        let last = tidelock.schedules().get("clock").await.unwrap().unwrap().last_job;
        last.is_some_and(|last| last != open[0].key)
    })
    .await;
    go.add_permits(100);
    running.stop().await;
}

/// JOB-13.
async fn a_triggered_schedule_starts_at_once_even_if_it_is_paused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let schedules = tidelock.schedules();
    let running = Running::start(
        tidelock
            .app()
            .job(async |_: Report, _: JobCtx| Ok(()))
            .workflow("tick", async |_: RunCtx, (): ()| Ok::<_, StepError>(()))
            .worker(brisk("w")),
    );
    let job = schedules.put("jobs", Schedule::cron(YEARLY).enqueues(&report())).await.unwrap();
    schedules.put("runs", Schedule::cron(YEARLY).starts("tick", &())).await.unwrap();
    schedules.pause("jobs").await.unwrap();
    let triggered = schedules.trigger("jobs").await.unwrap();
    assert!(triggered.paused && triggered.last_job.as_deref().unwrap().starts_with("jobs@"));
    until("it is done", async || done(&tidelock).await.len() == 1).await;
    let triggered = schedules.trigger("runs").await.unwrap();
    assert_eq!(triggered.next, job.next, "its occurrences are not affected");
    tidelock.runs().run(triggered.last_run.unwrap()).result().await.unwrap();
    let of = RunFilter::all().attribute("schedule", "runs");
    assert_eq!(tidelock.runs().list(&of).all().await.unwrap().len(), 1);
    schedules.trigger("missing").await.unwrap_err();
    running.stop().await;
}

/// JOB-13. A fixed time is one occurrence on each day, in the night that has it twice and in the
/// night that leaves it out.
#[tokio::test]
async fn a_nightly_job_is_enqueued_once_in_each_night_when_clocks_change() {
    // In Berlin, 3:00 was followed by 2:00 on 25 October, and 2:00 by 3:00 on 28 March.
    for (evening, nights) in [
        ("2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("2027-03-27T12:00:00Z", ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]),
    ] {
        let clock = ManualClock::at(evening.parse().unwrap());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let tidelock = Tidelock::over(store);
        let nightly = Schedule::cron("30 2 * * *").zone("Europe/Berlin").enqueues(&report());
        tidelock.schedules().put("nightly", nightly).await.unwrap();
        let running = app(&tidelock, "w");
        for (nth, night) in nights.into_iter().enumerate() {
            let night: Timestamp = night.parse().unwrap();
            let before = tidelock.store().now().await.unwrap();
            // Through the whole night, in steps: an occurrence too many would be enqueued, too.
            let hours = night.since(before).as_secs().div_ceil(1_800) + 4;
            for _ in 0..hours {
                clock.advance(Duration::from_secs(1_800));
                tokio::task::yield_now().await;
            }
            until("the night's job is done", async || done(&tidelock).await.len() > nth).await;
            let key = format!("nightly@{}", night.to_string().replace(".000000", ""));
            let all = done(&tidelock).await;
            assert_eq!(all.len(), nth + 1, "{all:?}");
            assert_eq!(all[nth].key, key);
        }
        running.stop().await;
    }
}

on_every_store!(
    two_schedulers_enqueue_one_job_for_each_occurrence,
    an_occurrence_is_left_out_while_the_last_job_is_unfinished,
    a_triggered_schedule_starts_at_once_even_if_it_is_paused,
);
