//! Operators, at the worst moment: each action is one that the command and the HTTP API offer.

use std::time::Duration;

use tidelock::jobs::{Job, JobFilter};
use tidelock::reactions::{ReactionFilter, ResetEffects, SkipOutcome};
use tidelock::runs::{RunAction, RunError, RunFilter, RunState};
use tidelock::store::{Adjustment, ItemFilter, NamePattern};
use tidelock::{PauseInfo, PauseSubject, Tidelock, When};

use super::app::REACTIONS;
use super::clients::close_books;
use super::fault::Fault;
use super::process::Process;
use super::state::{Chore, STREAMS, SUBJECTS};

/// How often an operator looks for something to do.
const GLANCE: Duration = Duration::from_millis(300);

/// Carries out an action from this process.
pub(crate) async fn act(process: &Process, fault: Fault, length: Duration) {
    let tidelock = process.tidelock();
    match fault {
        Fault::Unblock => unblock(&tidelock).await,
        Fault::Reset => reset(process, &tidelock).await,
        Fault::Cancel => cancel(process, &tidelock).await,
        Fault::Close => close_books(process).await,
        Fault::Defer => defer(process, &tidelock).await,
        Fault::EndRuns => end_runs(process, &tidelock).await,
        Fault::EndJobs => end_jobs(process, &tidelock, length).await,
        Fault::Skip => skip(process, &tidelock, length).await,
        Fault::PauseWork => pause(process, &tidelock, length).await,
        Fault::Erase => {
            let subject = process.draw(|rng| format!("person-{}", rng.below(SUBJECTS)));
            erase(process, &tidelock, &subject).await;
        }
        _ => {}
    }
}

/// Unblocks everything, and resumes runs that are parked. What fails is done again later.
pub(crate) async fn unblock(tidelock: &Tidelock) {
    let blocked = ItemFilter { queue: NamePattern::like("*"), ..ItemFilter::default() };
    let _adjusted = tidelock.store().adjust(blocked.blocked(true), Adjustment::Unblock).await;
    let Ok(open) = tidelock.runs().list(&RunFilter::all().state(RunState::Open)).all().await else {
        return;
    };
    for run in open {
        let _status_or_failure = tidelock.runs().run(&run.run).resume().await;
    }
}

/// Sends the signals of clients that died before they did.
pub(crate) async fn signal_all(tidelock: &Tidelock) {
    let Ok(open) = tidelock.runs().list(&RunFilter::all().state(RunState::Open)).all().await else {
        return;
    };
    for run in open {
        for signal in ["go", "hurry"] {
            let handle = tidelock.runs().run(&run.run);
            let _sent_or_ended = handle.signal(signal, &()).id(signal).await;
        }
    }
}

async fn reset(process: &Process, tidelock: &Tidelock) {
    let (reaction, target) = process.draw(|rng| {
        let reaction = *rng.pick(&REACTIONS);
        let target = match reaction {
            "gather" => format!("pile-{}", rng.below(2)),
            _ => format!("work-{}", rng.below(STREAMS)),
        };
        (reaction, target)
    });
    process.world.facts(|facts| facts.reset.insert((reaction.to_owned(), target.clone())));
    process.world.sometimes("target is rebuilt");
    let filter = ReactionFilter::named(reaction).target(&target);
    let _reset_or_refused = tidelock.reactions().reset(&filter, ResetEffects::Keep).await;
}

async fn cancel(process: &Process, tidelock: &Tidelock) {
    let runs: Vec<String> = process.world.facts(|facts| {
        facts.asked.get("run").into_iter().flat_map(|runs| runs.keys().cloned()).collect()
    });
    if runs.is_empty() {
        return;
    }
    let run = process.draw(|rng| rng.pick(&runs).clone());
    let handle = tidelock.runs().run(&run);
    let ended = match process.draw(|rng| rng.one_in(3)) {
        true => handle.terminate("an operator says so").await,
        false => handle.cancel("an operator says so").await,
    };
    process.world.facts(|facts| facts.reset.insert(("run".to_owned(), run)));
    match ended {
        Ok(()) => process.world.sometimes("run is cancelled"),
        Err(RunError::Ended { .. } | RunError::NoRun { .. } | RunError::Store(_)) => {}
        Err(RunError::Contended { .. }) => {}
        Err(error) => process.world.problem(format!("an operator could not end a run: {error}")),
    }
}

async fn defer(process: &Process, tidelock: &Tidelock) {
    let (nth, long) = process.draw(|rng| (rng.below(STREAMS), rng.millis(100, 5_000)));
    let filter = ReactionFilter::all().target(format!("work-{nth}"));
    let _deferred = tidelock.reactions().defer(&filter, When::In(long)).await;
    let priority = process.draw(|rng| i16::try_from(rng.below(3)).unwrap_or(0) - 1);
    let _prioritized = tidelock.reactions().prioritize(&filter, priority).await;
    process.sleep(Duration::from_millis(1)).await;
}

/// Ends a few runs together, and again under the same operation id.
async fn end_runs(process: &Process, tidelock: &Tidelock) {
    let (terminates, id) = process.draw(|rng| (rng.one_in(3), rng.next().to_string()));
    let bulk = tidelock.runs().bulk(&RunFilter::all().workflow("order"));
    let bulk = bulk.limit(3).operation_id(id);
    let action = if terminates { RunAction::Terminate } else { RunAction::Cancel };
    for _ in 0..2 {
        match bulk.carry_out(action, "an operator says so").await {
            Ok(batch) if batch.changed + batch.refused.len() as u64 != batch.matched => {
                process.world.problem(format!("of several runs some were left out: {batch:?}"));
            }
            Ok(batch) if batch.changed > 1 => process.world.sometimes("runs are ended together"),
            Ok(_) | Err(RunError::Store(_)) => {}
            Err(error) => {
                process.world.problem(format!("several runs could not be ended: {error}"));
            }
        }
    }
}

/// Cancels a job that is there, or discards all that failed for good.
async fn end_jobs(process: &Process, tidelock: &Tidelock, length: Duration) {
    let (filter, why) = (JobFilter::queue(Chore::QUEUE), "an operator says so");
    let discards = process.draw(|rng| rng.one_in(3));
    let end = process.world.time() + length;
    while process.world.time() < end {
        let ended = match tidelock.jobs().list(&filter).all().await {
            Ok(jobs) if !discards && !jobs.is_empty() => {
                let job = process.draw(|rng| rng.pick(&jobs).key.clone());
                tidelock.jobs().cancel(&filter.clone().key(job), why).await
            }
            _ => tidelock.jobs().discard(&filter, why).await,
        };
        if ended.is_ok_and(|ended| ended > 0) {
            return process.world.sometimes("job is ended by an operator");
        }
        process.sleep(GLANCE).await;
    }
}

/// Skips the event on which a target is blocked, once there is one.
async fn skip(process: &Process, tidelock: &Tidelock, length: Duration) {
    let end = process.world.time() + length;
    // What is shelved is counted, and the projection refuses nothing.
    for reaction in ["follow", "gather"].into_iter().cycle() {
        if process.world.time() >= end {
            return;
        }
        process.sleep(GLANCE).await;
        let blocked = ReactionFilter::named(reaction).blocked(true);
        let Ok(blocked) = tidelock.reactions().list(&blocked).all().await else { continue };
        let Some(seen) = blocked.first() else { continue };
        let target = (seen.reaction.clone(), seen.target.clone());
        process.world.facts(|facts| facts.skips.insert(target));
        if let Ok(SkipOutcome::Requested) = tidelock.reactions().skip(seen, "it is poison").await {
            return process.world.sometimes("event is skipped");
        }
    }
}

/// Pauses something for a while. What an operator that dies leaves paused is resumed in the end.
async fn pause(process: &Process, tidelock: &Tidelock, length: Duration) {
    let subject = process.draw(|rng| rng.below(3));
    let why = "an operator says so";
    let paused = match subject {
        0 => tidelock.jobs().pause(Chore::QUEUE, why).await.is_ok(),
        1 => tidelock.reactions().pause("follow", why).await.is_ok(),
        _ => tidelock.runs().pause("order", why).await.is_ok(),
    };
    if paused {
        process.world.sometimes("work is paused");
    }
    process.sleep(length).await;
    resume_all(tidelock).await;
}

/// Resumes everything; what fails is done again later.
pub(crate) async fn resume_all(tidelock: &Tidelock) {
    let Ok(paused) = tidelock.pauses().await else { return };
    for PauseInfo { subject, .. } in paused {
        let _resumed_or_failure = match &subject {
            PauseSubject::Queue(queue) => tidelock.jobs().resume(queue).await.is_ok(),
            PauseSubject::Reaction(name) => tidelock.reactions().resume(name).await.is_ok(),
            PauseSubject::Workflow(name) => tidelock.runs().resume(name).await.is_ok(),
            _ => false,
        };
    }
}

/// Erases the personal data of a subject; returns whether that is certain.
pub(crate) async fn erase(process: &Process, tidelock: &Tidelock, subject: &str) -> bool {
    process.world.facts(|facts| {
        facts.erased.entry(subject.to_owned()).or_default();
    });
    let is_done = tidelock.erase_subject(subject).await.is_ok();
    if is_done {
        process.alive().await;
        process.world.sometimes("subject is erased");
        process.world.facts(|facts| facts.erased.insert(subject.to_owned(), true));
    }
    is_done
}
