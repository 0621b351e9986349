//! The life of a simulated process: an application, clients, a server of jobs, and a follower.

use std::time::Duration;

use tokio::task::JoinSet;

use super::app;
use super::clients::{Client, Edge, serve_jobs};
use super::follower;
use super::process::Process;

/// The name of the schedule.
pub(crate) const SCHEDULE: &str = "tick";

/// Runs until the process is told to stop, and its application has.
pub(crate) async fn live(process: Process) {
    let tidelock = process.tidelock();
    let edge = Edge::new(&process, &tidelock);
    let mut others = JoinSet::new();
    for number in 0..process.world.plan.clients {
        others.spawn_local(Client::new(&process, &tidelock, &edge, number).run());
    }
    others.spawn_local(serve_jobs(process.clone(), tidelock.clone()));
    others.spawn_local(follower::follow(process.clone(), tidelock.clone()));
    if !process.world.is_calm() {
        // An identical schedule changes nothing, so every process can say so.
        let _put_or_not = tidelock.schedules().put(SCHEDULE, app::schedule()).await;
    }
    while !process.stopping().is_cancelled() {
        let app = match app::app(&process, &tidelock) {
            Ok(app) => app,
            Err(error) => return process.world.problem(format!("no application: {error}")),
        };
        if app.run_until(process.stopping().cancelled()).await.is_err() {
            // It could not register: its supervisor would start it again.
            process.sleep(Duration::from_secs(1)).await;
        }
    }
    while let Some(ended) = others.try_join_next() {
        if let Err(error) = ended
            && error.is_panic()
        {
            process.world.problem(format!("a client of {} panicked", process.name()));
        }
    }
}
