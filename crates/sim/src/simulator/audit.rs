//! The end of a simulation: the faults are over, everything finishes, and the accounts are made up.

mod accounts;
mod pauses;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidelock::Tidelock;
use tidelock::doctor::{Doctor, FindingKind, Severity};
use tidelock::runs::{RunFilter, RunState};
use tokio::time::sleep;

use super::clients::close_stream;
use super::life::SCHEDULE;
use super::operator;
use super::process::Process;
use super::state::STREAMS;
use super::world::World;
use crate::checkers::{self, Violation};
use crate::history::{Audit, History, Pending};
use read::Found;

/// The virtual time within which everything finishes that can.
const PATIENCE: Duration = Duration::from_secs(900);
/// Longer than every lease, reservation and window.
const EXPIRY: Duration = Duration::from_secs(30);
/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(3);

/// Waits until everything has finished, and returns what has not.
pub(crate) async fn settle(world: &Arc<World>) -> Vec<String> {
    let operator = Process::new(world, 99, 0, 2);
    let tidelock = operator.tidelock();
    let _deleted = tidelock.schedules().delete(SCHEDULE).await;
    let end = world.time() + PATIENCE;
    let mut closed = vec![false; usize::try_from(STREAMS).unwrap_or(0)];
    let mut pending = loop {
        sleep(INTERVAL).await;
        operator::resume_all(&tidelock).await;
        operator::unblock(&tidelock).await;
        operator::signal_all(&tidelock).await;
        for (stream, closed) in (0..).zip(&mut closed) {
            *closed = *closed || close_stream(&operator, stream, 0).await;
        }
        let mut pending = unfinished(world).await;
        for (subject, _) in world.facts(|facts| facts.erased.clone()) {
            if !operator::erase(&operator, &tidelock, &subject).await {
                pending.push(format!("the erasure of {subject}"));
            }
        }
        if !closed.iter().all(|closed| *closed) {
            pending.push("a closing".to_owned());
        }
        if pending.is_empty() || world.time() > end {
            break pending;
        }
    };
    if pending.is_empty() {
        pauses::check(world, &operator).await;
        pending = until_finished(world).await;
    }
    if pending.is_empty() {
        // What only has to expire does so.
        sleep(EXPIRY).await;
        examine(world).await;
    }
    operator.die();
    pending
}

/// Makes up the accounts, when nothing runs any more.
pub(crate) async fn judge(world: &World, pending: Vec<String>) -> Audit {
    let found = Found::read(&world.place().base).await;
    let mut audit = found.audit(world);
    if pending.is_empty() {
        accounts::check(world, &found).await;
    }
    let since = world.moment().at.unwrap_or_default();
    for what in pending {
        let why = format!("it did not finish within {PATIENCE:?} after the faults");
        audit.pending.push(Pending { what, since, why });
    }
    audit
}

/// Judges the history on a store that everything is about to leave.
pub(crate) async fn judge_era(world: &World) {
    let found = Found::read(&world.place().base).await;
    accounts::followers(world, &found);
    world.facts(|facts| facts.followed.clear());
    // Nothing is finished yet.
    let audit =
        Audit { to_handle: BTreeMap::new(), handled: BTreeMap::new(), ..found.audit(world) };
    let _undecided = check_history(world, &world.take_history(), &audit);
}

/// Checks a history, and returns what could not be decided.
pub(crate) fn check_history(world: &World, history: &History, audit: &Audit) -> Vec<String> {
    let checked = checkers::check(history, audit);
    for Violation { anomaly, story } in checked.violations {
        world.problem(format!("{anomaly}: {story}"));
    }
    checked.undecided
}

/// Waits until the other reactions have handled what came last, too: with short pages and slow
/// calls that takes minutes. Returns what is not finished.
async fn until_finished(world: &World) -> Vec<String> {
    let end = world.time() + PATIENCE;
    loop {
        let pending = unfinished(world).await;
        if pending.is_empty() || world.time() > end {
            return pending;
        }
        sleep(INTERVAL).await;
    }
}

/// What is not finished.
async fn unfinished(world: &World) -> Vec<String> {
    let found = Found::read(&world.place().base).await;
    let mut left = Vec::new();
    for (reaction, targets) in found.to_handle() {
        for (target, events) in targets {
            let handled = found.handled(&reaction, &target);
            let missing = events.iter().filter(|event| !handled.contains(*event)).count();
            if missing > 0 {
                left.push(format!("{missing} events of reaction {reaction} at {target}"));
            }
        }
    }
    let unshelved = found.unshelved();
    if unshelved > 0 {
        left.push(format!("{unshelved} bookings of reaction shelve"));
    }
    let tidelock = Tidelock::over(world.place().base.clone());
    let open = RunFilter::all().state(RunState::Open);
    match tidelock.runs().list(&open).all().await {
        Ok(open) => {
            for run in open {
                let status = tidelock.runs().run(&run.run).status().await;
                left.push(format!("run {}, which is {status:?}", run.run));
            }
        }
        Err(error) => left.push(format!("runs cannot be listed: {error}")),
    }
    let worked = found.texts("worked");
    let jobs = found.told(world, "job");
    left.extend(jobs.filter(|job| !worked.contains(job)).map(|job| format!("job {job}")));
    let chores = found.unfinished_chores(world, &tidelock).await;
    left.extend(chores.into_iter().map(|chore| format!("chore {chore}")));
    left.extend(found.behind(&tidelock).await);
    left
}

/// The doctor has nothing to report but what is past.
async fn examine(world: &World) {
    let diagnosis = match Doctor::over(world.place().base.clone()).examine().await {
        Ok(diagnosis) => diagnosis,
        Err(error) => return world.problem(format!("the doctor cannot examine: {error}")),
    };
    for finding in diagnosis.findings {
        // Of claims that died with their processes only an operator can say whether they matter.
        let past = matches!(finding.kind, FindingKind::Abandoned | FindingKind::Hot);
        if finding.severity != Severity::Info && !past {
            world.problem(format!("the doctor reports {}: {}", finding.kind, finding.what));
        }
    }
}
