//! Jobs, on every store.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::AppBuilder;
use tidelock::jobs::{Enqueued, JobFilter, JobInfo, JobOptions, JobState, OnDuplicate};
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoreExt, StreamName};
use tidelock_test_stage::{MANY, Running, TestStore, brisk, on_every_store, until};
use tokio::sync::{Notify, Semaphore};

const INSTANT: Duration = Duration::from_millis(5);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const QUEUE: &'static str = "mail";

    fn options() -> JobOptions {
        let retry = Retry::attempts(3).backoff(Backoff::fixed(INSTANT));
        JobOptions::new().retry(retry).timeout(MINUTE).keep_results(MINUTE)
    }
}

fn mail(to: &str) -> Mail {
    Mail { to: to.to_owned() }
}

/// An application of one handler, in the background.
fn running(app: AppBuilder) -> Running {
    Running::start(app.worker(brisk("w")))
}

/// Counts the mails to each recipient in the commit that ends the job.
fn counting(tidelock: &Tidelock) -> AppBuilder {
    tidelock.app().job(async |mail: Mail, ctx: JobCtx| {
        ctx.add(format!("sent/{}", mail.to), 1, ..)?;
        Ok(mail.to.len())
    })
}

async fn sent(tidelock: &Tidelock, to: &str) -> i64 {
    let key = tidelock::store::RecordKey::new(format!("sent/{to}")).unwrap();
    let slot = tidelock.store().get_one(&key).await.unwrap();
    slot.live().map_or(0, |record| record.value.to().unwrap())
}

async fn get(tidelock: &Tidelock, key: &str) -> Option<JobInfo> {
    tidelock.jobs().get("mail", key).await.unwrap()
}

async fn until_state(tidelock: &Tidelock, key: &str, state: JobState) -> JobInfo {
    let is_so = async || get(tidelock, key).await.is_some_and(|job| job.state == state);
    until(&format!("{key} is {state}"), is_so).await;
    get(tidelock, key).await.unwrap()
}

/// JOB-1, JOB-2.
async fn a_job_is_done_once_and_what_it_stages_lands_with_its_end(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let enqueued = here.enqueue(&mail("ada")).key("a").await.unwrap();
    assert_eq!((enqueued.key(), enqueued.is_new()), ("a", true));
    assert_eq!(get(&there, "a").await.unwrap().state, JobState::Queued);
    let (first, second) = (running(counting(&here)), running(counting(&there)));
    let done = until_state(&here, "a", JobState::Done).await;
    assert_eq!(done.result.unwrap().to::<usize>().unwrap(), 3);
    assert!(done.ended_at.is_some());
    first.stop().await;
    second.stop().await;
    assert_eq!(sent(&there, "ada").await, 1);
    assert!(here.jobs().list(&JobFilter::queue("mail")).all().await.unwrap().is_empty());
    assert_eq!(there.jobs().result::<usize>("mail", "a").await.unwrap(), Some(3));
}

/// JOB-1. In a transaction, a reaction and a step.
async fn a_job_is_enqueued_with_the_rest_of_its_commit_or_not_at_all(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let refused = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.enqueue(&mail("eve")).key("refused").await?;
        tx.put("x", &1)?;
        Err(tidelock::store::StoreError::invalid("no").into())
    });
    refused.await.unwrap_err();
    assert_eq!(get(&tidelock, "refused").await, None);

    let counted = tidelock.clone();
    let transact = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.enqueue(&mail("ada")).await?;
        tx.enqueue(&mail("ada")).key("again").await?;
        tx.put("x", &1)
    });
    transact.await.unwrap();

    let placed = NewEvent::of("placed", &json!({})).unwrap();
    let stream = StreamName::new("order-7").unwrap();
    counted
        .store()
        .append(&stream, ExpectedVersion::Any, vec![placed])
        .await
        .unwrap()
        .committed()
        .unwrap();
    let app = counting(&tidelock)
        .reaction("thanks", on_any(), |_, ctx: ReactionCtx| async move {
            ctx.enqueue(&mail("bob")).await?;
            Ok(())
        })
        .workflow("greet", |ctx: RunCtx, _: ()| async move {
            ctx.transact("mail", async |tx: Tx| -> Result<(), HandlerError> {
                tx.enqueue(&mail("eve")).key("eve").await?;
                Ok(())
            })
            .await
        });
    let app = running(app);
    tidelock.start("greet", "r", &()).await.unwrap();
    until("all are sent", async || {
        (sent(&tidelock, "ada").await, sent(&tidelock, "bob").await, sent(&tidelock, "eve").await)
            == (2, 1, 1)
    })
    .await;
    app.stop().await;
}

/// JOB-4. However many enqueue it at once, from several processes.
async fn one_job_is_enqueued_under_a_key(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let all = (0..20).map(|nth| {
        let tidelock = if nth % 2 == 0 { here.clone() } else { there.clone() };
        tokio::spawn(async move {
            match nth % 4 {
                0 | 1 => tidelock.enqueue(&mail("ada")).key("a").await.unwrap(),
                _ => {
                    let tx = tidelock.transact(async |tx: Tx| -> tidelock::Result<Enqueued> {
                        tx.add(format!("seen/{nth}"), 1, ..)?;
                        tx.enqueue(&mail("ada")).key("a").await
                    });
                    tx.await.unwrap()
                }
            }
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap().key(), "a");
    }
    let app = running(counting(&there));
    until_state(&here, "a", JobState::Done).await;
    app.stop().await;
    assert_eq!(sent(&here, "ada").await, 1);
    assert!(here.enqueue(&mail("ada")).key("a").await.unwrap().is_new(), "it is free again");
}

/// A handler that waits until it is allowed to end.
struct Gate {
    begun: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    fn app(&self, tidelock: &Tidelock) -> AppBuilder {
        let (begun, open) = (self.begun.clone(), self.open.clone());
        tidelock.app().job(move |mail: Mail, ctx: JobCtx| {
            let (begun, open) = (begun.clone(), open.clone());
            async move {
                begun.add_permits(1);
                open.acquire().await.unwrap().forget();
                ctx.add(format!("sent/{}", mail.to), 1, ..)?;
                Ok(())
            }
        })
    }

    async fn until_begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }
}

/// JOB-4. While it waits, while it runs, and after.
async fn a_replaced_payload_is_done_after_the_job_that_runs(stage: TestStore) {
    let (tidelock, gate) = (stage.tidelock().await, Gate::new());
    let enqueue = |to: &str| tidelock.enqueue(&mail(to)).key("a");
    let replace = |to: &str| enqueue(to).on_duplicate(OnDuplicate::Replace);
    enqueue("old").await.unwrap();
    assert!(matches!(enqueue("ignored").await.unwrap(), Enqueued::Duplicate(_)));
    assert!(matches!(replace("ada").await.unwrap(), Enqueued::Replaced(_)));
    let app = running(gate.app(&tidelock));
    gate.until_begun().await;
    assert!(matches!(enqueue("ignored").await.unwrap(), Enqueued::Duplicate(_)));
    assert!(matches!(replace("bob").await.unwrap(), Enqueued::Replaced(_)));
    gate.open.add_permits(2);
    until_state(&tidelock, "a", JobState::Done).await;
    app.stop().await;
    let all = [sent(&tidelock, "ada").await, sent(&tidelock, "bob").await];
    assert_eq!(all, [1, 1], "each payload once");
    assert_eq!([sent(&tidelock, "old").await, sent(&tidelock, "ignored").await], [0, 0]);
}

#[derive(Serialize, Deserialize)]
struct Nightly;

impl Job for Nightly {
    const QUEUE: &'static str = "nightly";

    fn options() -> JobOptions {
        JobOptions::new().unique_for(Duration::from_secs(2))
    }
}

/// JOB-5.
async fn a_key_stays_taken_for_the_window_of_its_type(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let app = tidelock.app().job(async |_: Nightly, ctx: JobCtx| Ok(ctx.add("nights", 1, ..)?));
    let app = running(app);
    tidelock.enqueue(&Nightly).key("a").await.unwrap();
    let done = async || tidelock.jobs().get("nightly", "a").await.unwrap();
    until("it is done", async || done().await.is_some_and(|job| job.state == JobState::Done)).await;
    assert!(!tidelock.enqueue(&Nightly).key("a").await.unwrap().is_new());
    let staged = tidelock.transact(async |tx: Tx| tx.enqueue(&Nightly).key("a").await);
    assert!(!staged.await.unwrap().is_new());
    until("the window is over", async || done().await.is_none()).await;
    assert!(tidelock.enqueue(&Nightly).key("a").await.unwrap().is_new());
    app.stop().await;
}

/// JOB-3. Errors, panics and timeouts are failures; a fatal error needs no second attempt.
async fn a_job_that_fails_is_retried_and_then_kept_with_its_error(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let attempts = Arc::new(AtomicU32::new(0));
    let (counted, cured) = (attempts.clone(), Arc::new(Semaphore::new(0)));
    let cure = cured.clone();
    let app = tidelock.app().job(move |mail: Mail, ctx: JobCtx| {
        let (attempts, cured) = (counted.clone(), cured.clone());
        async move {
            let nth = attempts.fetch_add(1, Ordering::SeqCst) + 1;
            if cured.available_permits() > 0 {
                ctx.add(format!("sent/{}", mail.to), 1, ..)?;
                return Ok(());
            }
            assert_eq!(ctx.attempt(), nth);
            ctx.add(format!("sent/{}", mail.to), 1, ..)?;
            match (mail.to.as_str(), nth) {
                ("fatal", _) => Err(HandlerError::fatal("no such mailbox")),
                (_, 2) => panic!("over"),
                _ => Err(HandlerError::again("greylisted")),
            }
        }
    });
    let app = running(app);
    tidelock.enqueue(&mail("ada")).key("a").await.unwrap();
    let blocked = until_state(&tidelock, "a", JobState::Blocked).await;
    assert_eq!(blocked.error.as_deref(), Some("greylisted"));
    assert_eq!(attempts.swap(0, Ordering::SeqCst), 3);
    tidelock.enqueue(&mail("fatal")).key("f").await.unwrap();
    let fatal = until_state(&tidelock, "f", JobState::Blocked).await;
    assert_eq!(
        (fatal.error.as_deref(), attempts.load(Ordering::SeqCst)),
        (Some("no such mailbox"), 1)
    );
    assert_eq!([sent(&tidelock, "ada").await, sent(&tidelock, "fatal").await], [0, 0]);

    // JOB-7.
    let dead = JobFilter::queue("mail").state(JobState::Blocked);
    assert_eq!(tidelock.jobs().list(&dead).all().await.unwrap().len(), 2);
    let discarded =
        tidelock.jobs().discard(&dead.clone().key("f"), "closed account").await.unwrap();
    assert_eq!(discarded, 1);
    let kept = get(&tidelock, "f").await.unwrap();
    assert_eq!((kept.state, kept.reason.as_deref()), (JobState::Discarded, Some("closed account")));
    assert_eq!(kept.error.as_deref(), Some("no such mailbox"));
    cure.add_permits(1);
    assert_eq!(tidelock.jobs().retry(&dead).await.unwrap().changed, 1);
    until_state(&tidelock, "a", JobState::Done).await;
    app.stop().await;
    assert_eq!([sent(&tidelock, "ada").await, sent(&tidelock, "fatal").await], [1, 0]);
}

#[derive(Serialize, Deserialize)]
struct Slow;

impl Job for Slow {
    const QUEUE: &'static str = "slow";

    fn options() -> JobOptions {
        JobOptions::new()
            .timeout(INSTANT)
            .retry(Retry::attempts(2).backoff(Backoff::fixed(INSTANT)))
    }
}

/// JOB-3.
async fn an_attempt_that_takes_too_long_has_failed(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let app = tidelock.app().job(async |_: Slow, _: JobCtx| {
        std::future::pending::<()>().await;
        Ok(())
    });
    let app = running(app);
    let key = tidelock.enqueue(&Slow).await.unwrap().key().to_owned();
    let job = async || tidelock.jobs().get("slow", &key).await.unwrap().unwrap();
    until("it is blocked", async || job().await.state == JobState::Blocked).await;
    let error = job().await.error.unwrap();
    assert!(error.contains("timed out after 5ms"), "{error}");
    app.stop().await;
}

/// JOB-7.
async fn a_cancelled_job_lands_nothing_although_its_handler_ends(stage: TestStore) {
    let (tidelock, operator, gate) = (stage.tidelock().await, stage.tidelock().await, Gate::new());
    tidelock.enqueue(&mail("ada")).key("a").await.unwrap();
    let app = running(gate.app(&tidelock));
    gate.until_begun().await;
    tidelock.enqueue(&mail("bob")).key("b").at(MINUTE).await.unwrap();
    let cancelled = operator.jobs().cancel(&JobFilter::queue("mail"), "wrong list").await.unwrap();
    assert_eq!(cancelled, 2);
    gate.open.add_permits(9);
    for key in ["a", "b"] {
        let job = get(&tidelock, key).await.unwrap();
        assert_eq!((job.state, job.reason.as_deref()), (JobState::Cancelled, Some("wrong list")));
    }
    let again = tidelock.enqueue(&mail("eve")).key("a").await.unwrap();
    assert!(again.is_new(), "its key is free");
    until_state(&tidelock, "a", JobState::Done).await;
    app.stop().await;
    let all = [sent(&tidelock, "ada").await, sent(&tidelock, "bob").await];
    assert_eq!((all, sent(&tidelock, "eve").await), ([0, 0], 1));
}

/// JOB-6.
async fn a_job_is_not_done_before_it_is_due_and_higher_priorities_go_first(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    tidelock.enqueue(&mail("later")).key("later").at(MINUTE).await.unwrap();
    for (to, priority) in [("low", -1), ("high", 50), ("highest", 100)] {
        tidelock.enqueue(&mail(to)).priority(priority).await.unwrap();
    }
    tidelock.enqueue(&mail("x")).priority(101).await.unwrap_err();
    let (seen, all) = (order.clone(), Arc::new(Notify::new()));
    let done = all.clone();
    let app = tidelock.app().max_concurrency(1).job(move |mail: Mail, _: JobCtx| {
        let (seen, done) = (seen.clone(), done.clone());
        async move {
            let mut seen = seen.lock().unwrap();
            seen.push(mail.to);
            if seen.len() == 3 {
                done.notify_one();
            }
            Ok(())
        }
    });
    let mut options = brisk("w");
    options.max_concurrency = 1;
    let app = Running::start(app.worker(options));
    all.notified().await;
    app.stop().await;
    let order = order.lock().unwrap().clone();
    // One slot in four goes to the job that has waited longest, whatever its priority.
    let place = |to: &str| order.iter().position(|one| one == to).unwrap();
    assert!(place("highest") < place("high"), "{order:?}");
    assert_eq!(get(&tidelock, "later").await.unwrap().state, JobState::Scheduled);
}

/// JOB-8.
async fn progress_is_seen_while_the_job_runs_and_gone_with_its_end(stage: TestStore) {
    let (tidelock, there) = (stage.tidelock().await, stage.tidelock().await);
    let go = Arc::new(Semaphore::new(0));
    let allowed = go.clone();
    let app = tidelock.app().job(move |_: Mail, ctx: JobCtx| {
        let go = allowed.clone();
        async move {
            ctx.progress(&json!({ "percent": 40 })).await?;
            go.acquire().await.unwrap().forget();
            Ok("sent")
        }
    });
    let app = running(app);
    tidelock.enqueue(&mail("ada")).key("a").metadata(Metadata::new().by("eve")).await.unwrap();
    let progress = async || get(&there, "a").await.and_then(|job| job.progress);
    until("there is progress", async || progress().await.is_some()).await;
    assert_eq!(progress().await.unwrap().to::<serde_json::Value>().unwrap()["percent"], 40);
    go.add_permits(1);
    let done = until_state(&there, "a", JobState::Done).await;
    assert_eq!((done.progress, done.result.unwrap().as_str()), (None, "\"sent\""));
    app.stop().await;
}

/// QUEUE-1, JOB-1. Any worker, and any client.
async fn a_job_is_an_item_of_its_queue(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let queue = tidelock.queue("mail");
    tidelock.enqueue(&mail("ada")).key("a").await.unwrap();
    let leased = queue.lease("elsewhere").await.unwrap().pop().unwrap();
    assert_eq!(leased.data.unwrap().to::<Mail>().unwrap(), mail("ada"));
    queue.settle(vec![leased.lease.ack()]).await.unwrap();
    assert_eq!(get(&tidelock, "a").await, None);
    queue.enqueue("b").data(&mail("bob")).await.unwrap();
    queue.enqueue("c").data(&json!({ "cc": 1 })).await.unwrap();
    let app = running(counting(&tidelock));
    until_state(&tidelock, "b", JobState::Done).await;
    let unreadable = until_state(&tidelock, "c", JobState::Blocked).await;
    assert!(unreadable.error.unwrap().contains("the payload is not a"));
    app.stop().await;
    assert_eq!([sent(&tidelock, "ada").await, sent(&tidelock, "bob").await], [0, 1]);
}

/// QUEUE-5, JOB-1.
async fn a_job_is_enqueued_once_per_operation(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let once = || tidelock.enqueue(&mail("ada")).operation_id("request-1");
    let first = once().await.unwrap();
    let app = running(counting(&tidelock));
    until_state(&tidelock, first.key(), JobState::Done).await;
    assert_eq!(once().await.unwrap(), first);
    app.stop().await;
    assert_eq!(sent(&tidelock, "ada").await, 1);
    let staged = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.enqueue(&mail("ada")).operation_id("request-1").await?;
        Ok(())
    });
    staged.await.unwrap_err();
}

/// JOB-9.
async fn a_job_that_outlasts_the_shutdown_is_begun_again_and_has_not_failed(stage: TestStore) {
    let (tidelock, gate) = (stage.tidelock().await, Gate::new());
    tidelock.enqueue(&mail("ada")).key("a").await.unwrap();
    let mut options = brisk("first");
    options.shutdown_timeout = INSTANT;
    let first = Running::start(gate.app(&tidelock).worker(options));
    gate.until_begun().await;
    assert_eq!(first.stop().await.still_running, 1);
    let job = get(&tidelock, "a").await.unwrap();
    assert_eq!((job.state, job.failures, job.crashes), (JobState::Queued, 0, 0));
    gate.open.add_permits(9);
    let second = running(gate.app(&tidelock));
    until_state(&tidelock, "a", JobState::Done).await;
    second.stop().await;
    assert_eq!(sent(&tidelock, "ada").await, 1);
}

/// JOB-12, JOB-4. More than one commit holds; some of the keys are taken.
async fn many_jobs_are_enqueued_in_few_commits_and_each_under_its_key(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let taken = here.enqueue(&mail("old")).key("00007").await.unwrap();
    assert!(taken.is_new());
    let mails = |from: usize| (from..from + 600).map(|nth| mail(&format!("{nth:05}")));
    let key = |mail: &Mail| mail.to.clone();
    let (some, more) = tokio::join!(
        here.enqueue_all(mails(0)).keys(key).into_future(),
        there.enqueue_all(mails(300)).keys(key).into_future()
    );
    let all: Vec<Enqueued> = some.unwrap().into_iter().chain(more.unwrap()).collect();
    assert_eq!((all.len(), all[7].key()), (1_200, "00007"));
    assert_eq!(all.iter().filter(|one| one.is_new()).count(), 899, "each key once");
    assert!(!all[7].is_new());
    let listed = there.jobs().list(&JobFilter::queue("mail")).all().await.unwrap();
    assert_eq!(listed.len(), 900);
    let replaced = here.enqueue_all([mail("00007")]).keys(key).on_duplicate(OnDuplicate::Replace);
    assert!(matches!(replaced.await.unwrap()[..], [Enqueued::Replaced(_)]));
    let unkeyed = here.enqueue_all([mail("x"), mail("x")]).at(MINUTE).await.unwrap();
    assert_ne!(unkeyed[0].key(), unkeyed[1].key());
    let twice = here.enqueue_all([mail("x"), mail("x")]).keys(key);
    twice.await.unwrap_err();
}

/// JOB-7, READ-2. More than a store scans for one page.
async fn all_of_many_jobs_are_listed_retried_and_cancelled(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let many = if stage.is_stingy() { 500 } else { MANY };
    let mails = (0..many).map(|nth| mail(&nth.to_string()));
    tidelock.enqueue_all(mails).at(MINUTE).await.unwrap();
    tidelock.enqueue(&mail("first")).key("~").await.unwrap();
    tidelock.queue("other").enqueue("x").await.unwrap();
    let (jobs, mails) = (tidelock.jobs(), JobFilter::queue("mail"));
    let scheduled = mails.clone().state(JobState::Scheduled);
    assert_eq!(jobs.list(&scheduled).all().await.unwrap().len(), many);
    let everything = jobs.list(&JobFilter::all()).limit(100).all().await.unwrap();
    assert!(everything.iter().any(|job| job.queue == "other"));
    assert!(everything.iter().all(|job| !job.queue.starts_with('~')));
    assert_eq!(jobs.cancel(&scheduled, "no").await.unwrap(), many as u64);
    assert_eq!(jobs.list(&mails).all().await.unwrap().len(), 1);
    let cancelled = mails.state(JobState::Cancelled);
    assert_eq!(jobs.list(&cancelled).all().await.unwrap().len(), many);
    let page = jobs.list(&cancelled).limit(10).await.unwrap();
    assert!(page.next.is_some() && page.items.len() <= 10);
}

#[test]
fn two_types_for_one_queue_are_refused() {
    #[derive(Serialize, Deserialize)]
    struct Other;
    impl Job for Other {
        const QUEUE: &'static str = Mail::QUEUE;
    }
    let tidelock = Tidelock::over(Arc::new(tidelock::store::MemoryStore::new()));
    let app = tidelock.app().job(async |_: Mail, _| Ok(())).job(async |_: Other, _| Ok(()));
    let refused = app.build().unwrap_err().to_string();
    assert!(refused.contains("jobs of queue \"mail\": two types of jobs"), "{refused}");
}

on_every_store!(
    a_job_is_done_once_and_what_it_stages_lands_with_its_end,
    a_job_is_enqueued_with_the_rest_of_its_commit_or_not_at_all,
    one_job_is_enqueued_under_a_key,
    a_replaced_payload_is_done_after_the_job_that_runs,
    a_key_stays_taken_for_the_window_of_its_type,
    a_job_that_fails_is_retried_and_then_kept_with_its_error,
    an_attempt_that_takes_too_long_has_failed,
    a_cancelled_job_lands_nothing_although_its_handler_ends,
    a_job_is_not_done_before_it_is_due_and_higher_priorities_go_first,
    progress_is_seen_while_the_job_runs_and_gone_with_its_end,
    a_job_is_an_item_of_its_queue,
    a_job_is_enqueued_once_per_operation,
    a_job_that_outlasts_the_shutdown_is_begun_again_and_has_not_failed,
    many_jobs_are_enqueued_in_few_commits_and_each_under_its_key,
    all_of_many_jobs_are_listed_retried_and_cancelled,
);
