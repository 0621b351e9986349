//! Jobs in real processes, which are killed, stopped and continued in the middle of a handler.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tidelock::jobs::{JobOptions, JobState};
use tidelock::prelude::*;
use tidelock::store::{RecordKey, StoreExt};
use tidelock_test_stage::{LEASE, Meeting, Role, TestStore, brisk, for_real, until};

#[derive(Serialize, Deserialize)]
struct Mail;

impl Job for Mail {
    const QUEUE: &'static str = "mail";

    fn options() -> JobOptions {
        JobOptions::new().lease(LEASE).max_crashes(2)
    }
}

/// The child process; does nothing by itself.
#[tokio::test]
async fn a_child() {
    let Some(role) = Role::ours() else { return };
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    let own = role.clone();
    let app = tidelock.app().job(move |_: Mail, ctx: JobCtx| {
        let role = own.clone();
        async move {
            role.note(&format!("begun {} {} {}", role.name, ctx.attempt(), ctx.effect_key()));
            if role.name == "bomb" {
                std::process::abort();
            }
            role.allowed(&format!("go {}", role.name)).await;
            ctx.add("sent", 1, ..)?;
            role.note(&format!("handled {}", role.name));
            Ok(())
        }
    });
    let app = app.worker(brisk(&role.name)).build().unwrap();
    app.run_until(role.allowed(&format!("stop {}", role.name))).await.unwrap();
    role.note(&format!("ended {}", role.name));
}

fn meeting_on(stage: &TestStore) -> Meeting {
    Meeting::on(stage, "jobs_processes::a_child")
}

async fn sent(tidelock: &Tidelock) -> i64 {
    let slot = tidelock.store().get_one(&RecordKey::new("sent").unwrap()).await.unwrap();
    slot.live().map_or(0, |record| record.value.to().unwrap())
}

async fn state(tidelock: &Tidelock, key: &str) -> Option<JobState> {
    tidelock.jobs().get("mail", key).await.unwrap().map(|job| job.state)
}

fn effect_keys(meeting: &Meeting) -> Vec<String> {
    let begun = meeting.notes().into_iter().filter(|line| line.starts_with("begun "));
    begun.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

/// JOB-2. A process that was stopped and is continued has lost its lease.
async fn a_stopped_process_that_resumes_writes_nothing(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    tidelock.enqueue(&Mail).key("a").await.unwrap();
    let mut first = meeting.start("first");
    meeting.until_noted("begun first").await;
    meeting.stop(&first).await;
    meeting.allow("go second");
    let mut second = meeting.start("second");
    meeting.until_noted("handled second").await;
    until("it has ended", async || state(&tidelock, "a").await.is_none()).await;
    first.signal(Signal::SIGCONT);
    for what in ["go first", "stop first", "stop second"] {
        meeting.allow(what);
    }
    first.until_ended().await;
    second.until_ended().await;
    assert_eq!(sent(&tidelock).await, 1, "{:?}", meeting.notes());
    let keys = effect_keys(&meeting);
    assert_eq!(keys.len(), 2, "both were at it: {:?}", meeting.notes());
    assert_eq!(keys[0], keys[1], "under the same effect key");
}

/// JOB-2. A process that is killed is succeeded by another one.
async fn the_job_of_a_killed_process_is_done_by_another(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    tidelock.enqueue(&Mail).key("a").await.unwrap();
    let first = meeting.start("first");
    meeting.until_noted("begun first 1").await;
    first.kill().await;
    meeting.allow("go second");
    let mut second = meeting.start("second");
    meeting.until_noted("begun second 2").await;
    until("it has ended", async || state(&tidelock, "a").await.is_none()).await;
    meeting.allow("stop second");
    second.until_ended().await;
    assert_eq!(sent(&tidelock).await, 1, "{:?}", meeting.notes());
}

/// JOB-3. It has a budget of its own, apart from the attempts.
async fn a_job_that_kills_its_process_each_time_is_blocked(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    tidelock.enqueue(&Mail).key("a").await.unwrap();
    for _ in 0..2 {
        meeting.start("bomb").until_ended().await;
    }
    let mut third = meeting.start("third");
    until("it is blocked", async || state(&tidelock, "a").await == Some(JobState::Blocked)).await;
    let job = tidelock.jobs().get("mail", "a").await.unwrap().unwrap();
    assert_eq!((job.crashes, job.failures), (2, 0));
    meeting.allow("stop third");
    third.until_ended().await;
    assert_eq!(effect_keys(&meeting).len(), 2, "{:?}", meeting.notes());
}

macro_rules! on_real_stores {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            use super::*;
            $(#[test] fn $case() { for_real(TestStore::sqlite(), super::$case); })*
        }
        mod postgres {
            use super::*;
            $(#[test] fn $case() { for_real(TestStore::postgres(), super::$case); })*
        }
    };
}

on_real_stores!(
    a_stopped_process_that_resumes_writes_nothing,
    the_job_of_a_killed_process_is_done_by_another,
    a_job_that_kills_its_process_each_time_is_blocked,
);
