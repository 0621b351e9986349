//! One simulation: from a plan to a report.

use std::sync::Arc;
use std::time::Duration;

use tidelock::Tidelock;
use tidelock::store::{MemoryStore, simulate_ids};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, sleep_until};

use super::app::SIMULATED_PANIC;
use super::audit;
use super::coverage::Coverage;
use super::fault::Fault;
use super::life::live;
use super::migration::migrate;
use super::operator;
use super::place::Medium;
use super::plan::{Event, Plan};
use super::process::{Process, Supervisor};
use super::rng::Rng;
use super::world::World;
use crate::history::History;

/// What came of a simulation.
#[derive(Debug)]
pub struct Report {
    /// What was simulated.
    pub plan: Plan,
    /// The hash over everything that happened.
    pub hash: u64,
    /// The number of things that happened.
    pub steps: u64,
    /// The simulated time, of all processes together.
    pub process_seconds: f64,
    /// What was reached.
    pub coverage: Coverage,
    /// What must not have happened.
    pub violations: Vec<String>,
    /// What the checkers could not decide within their bounds.
    pub undecided: Vec<String>,
    /// Everything that clients did, and remarks.
    pub history: History,
}

/// Leaves the panics that are part of a simulation out of the output.
pub fn quiet_panics() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        if text != Some(SIMULATED_PANIC) {
            others(panic);
        }
    }));
}

/// Runs a simulation on this thread.
pub fn simulate(plan: &Plan) -> Report {
    // The name of this real process is drawn once, by the first simulation in it.
    let _named = Tidelock::over(Arc::new(MemoryStore::new())).claims();
    // Everything in this thread that draws without a generator of its own.
    fastrand::seed(plan.seed);
    simulate_ids(Some(plan.seed));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = match plan.medium {
        Medium::Memory | Medium::File => runtime.enable_time().start_paused(true),
        Medium::Server => runtime.enable_all(),
    };
    let runtime = runtime.build().expect("a runtime on one thread needs next to nothing");
    let tasks = LocalSet::new();
    let report = tasks.block_on(&runtime, run(plan.clone()));
    drop(tasks);
    drop(runtime);
    simulate_ids(None);
    report
}

async fn run(plan: Plan) -> Report {
    let world = World::new(plan.clone()).await;
    let mut processes = JoinSet::new();
    let supervisors: Vec<_> =
        (0..plan.processes).map(|number| Supervisor::new(&world, number)).collect();
    for supervisor in &supervisors {
        processes.spawn_local(supervisor.clone().run(live));
    }
    direct(&world, &supervisors).await;
    world.calm_down();
    world.place().server.iter().for_each(|server| server.heal());
    for supervisor in &supervisors {
        // The newest code goes everywhere.
        supervisor.current().iter().for_each(Process::stop);
    }
    let pending = audit::settle(&world).await;
    let seconds = world.time().as_secs_f64() * plan.processes as f64;
    for supervisor in &supervisors {
        supervisor.current().iter().for_each(Process::die);
    }
    processes.shutdown().await;
    let audit = audit::judge(&world, pending).await;
    let history = world.take_history();
    let undecided = audit::check_history(&world, &history, &audit);
    let (hash, steps, coverage, violations) = world.take();
    Report { plan, hash, steps, process_seconds: seconds, coverage, violations, undecided, history }
}

/// Carries out the events of the plan.
async fn direct(world: &Arc<World>, supervisors: &[Arc<Supervisor>]) {
    let began = tokio::time::Instant::now();
    let mut operators = JoinSet::new();
    for event in &world.plan.events {
        sleep_until(began + event.at).await;
        strike(world, supervisors, event, &mut operators).await;
    }
    sleep_until(began + world.plan.length).await;
    // An operator's action that was begun ends with the faults, wherever it is.
    operators.shutdown().await;
}

async fn strike(
    world: &Arc<World>,
    supervisors: &[Arc<Supervisor>],
    event: &Event,
    operators: &mut JoinSet<()>,
) {
    let Some(process) = supervisors.get(event.process).and_then(|s| s.current()) else { return };
    let detail = format!("for {:?}", event.length);
    world.fault(process.name(), event.fault, &detail);
    let seconds = i64::try_from(event.length.as_secs()).unwrap_or(1);
    match event.fault {
        Fault::Kill => process.die(),
        Fault::Pause => process.pause(event.length),
        Fault::Cut => match &world.place().server {
            Some(server) => server.cut(event.process, process.draw(Rng::next), event.length),
            None => process.cut(event.length),
        },
        Fault::Redeploy => process.stop(),
        Fault::Restart | Fault::Restore | Fault::PowerCut => {
            world.restart(event.length / 4, event.fault).await;
            world.wakes.all();
        }
        Fault::Import => migrate(world, supervisors).await,
        Fault::ClockForward => world.jump(seconds * 4).await,
        Fault::ClockBack => world.jump(-seconds * 4).await,
        fault => {
            let length = event.length;
            operators.spawn_local(async move { operator::act(&process, fault, length).await });
            sleep(Duration::ZERO).await;
        }
    }
}
