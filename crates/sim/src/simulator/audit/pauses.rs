//! Pauses: what is paused is not done until it is resumed, and then at once.

use std::time::Duration;

use tidelock::Tidelock;
use tidelock::jobs::{Job, JobState};
use tokio::time::sleep;

use super::read::Found;
use crate::simulator::app::{ORDER, REACTIONS};
use crate::simulator::operator::resume_all;
use crate::simulator::process::Process;
use crate::simulator::state::{Chore, Work, WorkEvent};
use crate::simulator::world::World;

/// More than two seconds, and the latency of what a process had begun before it learned of a pause.
const HONORED: Duration = Duration::from_secs(8);
/// Within so long what is due is done: a route can be minutes behind where pages are short.
const SOON: Duration = Duration::from_secs(300);
/// The name of all work that is asked for during the pauses.
const NAME: &str = "paused-0";

/// Pauses everything, asks for work of each kind, and resumes everything. The faults are over.
pub(super) async fn check(world: &World, operator: &Process) {
    let tidelock = operator.tidelock();
    if let Err(error) = pause_and_ask(world, &tidelock).await {
        return world.problem(format!("work could not be paused: {error}"));
    }
    sleep(HONORED).await;
    for (what, is_done) in work(world, &tidelock).await {
        if is_done {
            world.problem(format!("{what} was done while it was paused"));
        }
    }
    resume_all(&tidelock).await;
    let end = world.time() + SOON;
    loop {
        sleep(Duration::from_secs(1)).await;
        let left = work(world, &tidelock).await.into_iter().find(|(_, is_done)| !is_done);
        match left {
            None => return,
            Some((what, _)) if world.time() > end => {
                return world.problem(format!("{what} was not done after it was resumed"));
            }
            Some(_) => {}
        }
    }
}

async fn pause_and_ask(world: &World, tidelock: &Tidelock) -> tidelock::Result<()> {
    let why = "an operator says so";
    tidelock.jobs().pause(Chore::QUEUE, why).await?;
    tidelock.reactions().pause(REACTIONS[0], why).await?;
    tidelock.runs().pause("order", why).await?;
    sleep(HONORED).await;
    let run = format!("run-{NAME}");
    for (kind, name) in [("chore", NAME), ("work", NAME), ("run", &run)] {
        world.told(kind, name);
    }
    tidelock.enqueue(&Chore { id: NAME.to_owned() }).key(NAME).await?;
    tidelock.start(ORDER, &run, &0).await?;
    let came = WorkEvent::Came { id: NAME.to_owned(), units: 1 };
    tidelock.aggregate::<Work>("0").append(came).await?;
    Ok(())
}

/// What was asked for, and whether it is done.
async fn work(world: &World, tidelock: &Tidelock) -> [(&'static str, bool); 3] {
    let found = Found::read(&world.place().base).await;
    let event = found.stream("work-0").last().map(|event| event.id.to_string());
    let handled = found.handled(REACTIONS[0], "work-0");
    let chore = tidelock.jobs().get(Chore::QUEUE, NAME).await.ok().flatten();
    [
        ("an event", event.is_some_and(|event| handled.contains(&event))),
        ("a job", chore.is_some_and(|chore| chore.state == JobState::Done)),
        ("a run", found.record::<i64>(&format!("count/run-{NAME}")).is_some()),
    ]
}
