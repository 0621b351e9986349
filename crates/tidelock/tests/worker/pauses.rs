//! Pauses and global limits, on every store, over two handles as in two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::jobs::{JobFilter, JobInfo, JobOptions};
use tidelock::prelude::*;
use tidelock::store::{ItemFilter, ItemQuery, NewEvent, StoreExt, StreamName};
use tidelock::{AppBuilder, PauseSubject};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};
use tokio::time::Instant;

#[derive(Serialize, Deserialize)]
struct Work;

impl Job for Work {
    const QUEUE: &'static str = "work";

    fn options() -> JobOptions {
        JobOptions::new().global_concurrency(3)
    }
}

#[derive(Serialize, Deserialize)]
struct Free(u32);

impl Job for Free {
    const QUEUE: &'static str = "free";
}

/// How long a process may rely on what it has read, and a poll.
const BOUND: Duration = Duration::from_secs(2);

async fn passes(time: Duration) {
    let begun = Instant::now();
    until("the time has passed", async || begun.elapsed() >= time).await;
}

/// JOB-10. Over two processes, for a queue, a reaction and a workflow.
async fn nothing_new_is_leased_of_what_is_paused(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let done = Arc::new(AtomicUsize::new(0));
    let app = |tidelock: &Tidelock| {
        let (jobs, events, runs) = (done.clone(), done.clone(), done.clone());
        tidelock
            .app()
            .job(move |_: Free, _: JobCtx| {
                let done = jobs.clone();
                async move {
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }
            })
            .reaction("react", on_any(), move |_, _: ReactionCtx| {
                let done = events.clone();
                async move {
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }
            })
            .workflow("run", move |_: RunCtx, _: ()| {
                let done = runs.clone();
                async move {
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, StepError>(())
                }
            })
    };
    let running = [
        Running::start(app(&here).worker(brisk("here"))),
        Running::start(app(&there).worker(brisk("there"))),
    ];
    assert!(here.jobs().pause("free", "the server is down").await.unwrap());
    assert!(there.reactions().pause("react", "deploying").await.unwrap());
    assert!(here.runs().pause("run", "deploying").await.unwrap());
    assert!(!there.jobs().pause("free", "still down").await.unwrap(), "it is paused already");
    passes(BOUND).await;

    here.enqueue(&Free(1)).await.unwrap();
    there.start("run", "r", &()).await.unwrap();
    let noted = NewEvent::of("noted", &1).unwrap();
    let stream = StreamName::new("diary").unwrap();
    here.store()
        .append(&stream, ExpectedVersion::Any, vec![noted])
        .await
        .unwrap()
        .committed()
        .unwrap();
    assert!(here.queue("free").lease("elsewhere").await.unwrap().is_empty(), "by no worker at all");
    passes(BOUND).await;
    assert_eq!(done.load(Ordering::SeqCst), 0);
    let paused = there.pauses().await.unwrap();
    let free = PauseSubject::Queue("free".to_owned());
    let found = paused.iter().find(|pause| pause.subject == free).unwrap();
    assert_eq!((paused.len(), found.reason.as_str()), (3, "still down"));

    assert!(there.jobs().resume("free").await.unwrap());
    assert!(here.reactions().resume("react").await.unwrap());
    assert!(there.runs().resume("run").await.unwrap());
    assert!(!here.jobs().resume("free").await.unwrap());
    until("all is done", async || done.load(Ordering::SeqCst) == 3).await;
    for app in running {
        app.stop().await;
    }
    here.jobs().pause("~reaction/react", "no").await.unwrap_err();
    here.reactions().pause("a/b", "no").await.unwrap_err();
}

/// Counts how many are at work at once.
#[derive(Debug, Clone, Default)]
struct AtOnce {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
}

impl AtOnce {
    /// Whether so many were at work at once, and no more. In real time it may have been fewer.
    fn check(&self, limit: usize, stage: &TestStore) {
        let most = self.most.swap(0, Ordering::SeqCst);
        assert!(most <= limit, "{most} at once");
        assert!(most == limit || !stage.is_simulated(), "only {most} at once");
    }

    async fn work(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    fn app(&self, tidelock: &Tidelock) -> AppBuilder {
        let (jobs, runs) = (self.clone(), self.clone());
        let options =
            tidelock::runs::WorkflowOptions::<(), ()>::named("limited").global_concurrency(3);
        tidelock
            .app()
            .job(move |_: Work, ctx: JobCtx| {
                let at_once = jobs.clone();
                async move {
                    at_once.work().await;
                    Ok(ctx.add("done", 1, ..)?)
                }
            })
            .workflow(options, move |_: RunCtx, (): ()| {
                let at_once = runs.clone();
                async move {
                    at_once.work().await;
                    Ok::<_, StepError>(())
                }
            })
    }
}

/// JOB-11. Over two processes, each of which could do all of it.
async fn no_more_than_the_global_limit_are_worked_on_at_once(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let at_once = AtOnce::default();
    let jobs = 60;
    for _ in 0..jobs {
        here.enqueue(&Work).await.unwrap();
    }
    let running = [
        Running::start(at_once.app(&here).worker(brisk("here"))),
        Running::start(at_once.app(&there).worker(brisk("there"))),
    ];
    until("all jobs are done", async || at_once.done.load(Ordering::SeqCst) == jobs).await;
    at_once.check(3, &stage);
    for nth in 0..20 {
        here.start("limited", format!("r{nth}"), &()).await.unwrap();
    }
    until("all runs are done", async || at_once.done.load(Ordering::SeqCst) == jobs + 20).await;
    at_once.check(3, &stage);
    for app in running {
        app.stop().await;
    }
    let left = here.jobs().list(&JobFilter::all()).all().await.unwrap();
    let is_one = |job: &JobInfo| job.queue == "work" || job.queue.starts_with('~');
    assert!(!left.iter().any(is_one), "permits are no jobs: {left:?}");
    let permits = ItemQuery::new(ItemFilter::queue("~permits/queue/work"));
    let permits = here.store().rows(permits).all().await.unwrap();
    assert_eq!(permits.len(), 3);
    assert!(permits.iter().all(|permit| permit.holder.is_none() && permit.due.is_some()));
}

/// JOB-11. The permits that are too many are withdrawn.
async fn a_lowered_limit_holds_from_the_next_start_on(stage: TestStore) {
    #[derive(Serialize, Deserialize)]
    struct Lower;
    impl Job for Lower {
        const QUEUE: &'static str = Work::QUEUE;
        fn options() -> JobOptions {
            JobOptions::new().global_concurrency(1)
        }
    }
    let tidelock = stage.tidelock().await;
    let at_once = AtOnce::default();
    tidelock.enqueue(&Work).await.unwrap();
    let first = Running::start(at_once.app(&tidelock).worker(brisk("first")));
    until("it is done", async || at_once.done.load(Ordering::SeqCst) == 1).await;
    first.stop().await;
    at_once.most.store(0, Ordering::SeqCst);
    for _ in 0..20 {
        tidelock.enqueue(&Lower).await.unwrap();
    }
    let counted = at_once.clone();
    let app = tidelock.app().job(move |_: Lower, _: JobCtx| {
        let at_once = counted.clone();
        async move {
            at_once.work().await;
            Ok(())
        }
    });
    let second = Running::start(app.worker(brisk("second")));
    until("all are done", async || at_once.done.load(Ordering::SeqCst) == 21).await;
    assert_eq!(at_once.most.load(Ordering::SeqCst), 1);
    second.stop().await;
}

#[test]
fn a_global_limit_of_none_is_refused() {
    #[derive(Serialize, Deserialize)]
    struct Never;
    impl Job for Never {
        const QUEUE: &'static str = "never";
        fn options() -> JobOptions {
            JobOptions::new().global_concurrency(0)
        }
    }
    let tidelock = Tidelock::over(Arc::new(tidelock::store::MemoryStore::new()));
    let refused = tidelock.app().job(async |_: Never, _| Ok(())).build().unwrap_err().to_string();
    assert!(refused.contains("a global concurrency of 0"), "{refused}");
}

on_every_store!(
    nothing_new_is_leased_of_what_is_paused,
    no_more_than_the_global_limit_are_worked_on_at_once,
    a_lowered_limit_holds_from_the_next_start_on,
);
