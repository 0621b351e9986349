//! The end of a simulation: the faults are over, everything finishes, and the accounts are made up.

mod accounts;
mod read;

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
use crate::history::{Audit, Pending};
use read::Found;

/// The virtual time within which everything finishes that can.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(3);

/// Waits until everything has finished, and returns what has not.
pub(crate) async fn settle(world: &Arc<World>) -> Vec<String> {
    let operator = Process::new(world, 99, 0, 2);
    let tidelock = operator.tidelock();
    let _deleted = tidelock.schedules().delete(SCHEDULE).await;
    let end = world.time() + PATIENCE;
    let mut closed = vec![false; usize::try_from(STREAMS).unwrap_or(0)];
    let pending = loop {
        sleep(INTERVAL).await;
        operator::unblock(&tidelock).await;
        operator::signal_all(&tidelock).await;
        for (stream, closed) in (0..).zip(&mut closed) {
            *closed = *closed || close_stream(&operator, stream, 0).await;
        }
        let mut pending = unfinished(world).await;
        if !closed.iter().all(|closed| *closed) {
            pending.push("a closing".to_owned());
        }
        if pending.is_empty() || world.time() > end {
            break pending;
        }
    };
    if pending.is_empty() {
        // What only has to expire does so.
        sleep(Duration::from_secs(60)).await;
        examine(world).await;
    }
    operator.die();
    pending
}

/// Makes up the accounts, when nothing runs any more.
pub(crate) async fn judge(world: &World, pending: Vec<String>) -> Audit {
    let found = Found::read(&world.base).await;
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

/// What is not finished.
async fn unfinished(world: &World) -> Vec<String> {
    let found = Found::read(&world.base).await;
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
    let tidelock = Tidelock::over(world.base.clone());
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
    left.extend(found.behind(&tidelock).await);
    left
}

/// The doctor has nothing to report but what is past.
async fn examine(world: &World) {
    let diagnosis = match Doctor::over(world.base.clone()).examine().await {
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
