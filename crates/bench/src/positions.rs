//! How a log on PostgreSQL gives out positions so that its feed never skips: the experiment behind a decision.
//!
//! Each mechanism is a small program of plain SQL, with nothing of the store in it: the same rows, the same committer
//! that takes what is queued into one statement, and another way to number the events. Real processes write, and a
//! reader follows the feed and counts what it misses. The mechanisms take turns, slice by slice, so that a noisy machine
//! is noisy to all of them.
//!
//! Not here: expected versions, idempotency, leases. They cost the same whatever the positions are.

mod mechanism;

mod counter;
mod lock;
mod sequence;
mod ticket;
mod xid;

mod scenario;
mod slice;
mod tally;

mod committer;
mod ground;
mod process;
mod writer;

mod hold;
mod reader;
mod scanner;

#[cfg(test)]
mod tests;

pub(crate) use mechanism::Mechanism;
pub(crate) use writer::write;

use tokio::task::block_in_place;

use crate::args::PositionsArgs;
use crate::database;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::write_line;
use ground::Ground;
use hold::Hold;
use scenario::{Beside, Scenario};
use tally::{Line, Tally};

/// Every mechanism has this many slices of each scenario.
const SLICES: u32 = 8;

/// Runs the experiment, on a server of its own if none was named.
pub(crate) async fn measure_all(args: &PositionsArgs) -> Result<(), Failure> {
    let scenarios = scenario::chosen(&args.only)?;
    let Some(url) = args.url.clone() else {
        let server = block_in_place(database::start_server)?;
        return Experiment::new(args, server.url(), scenarios.len()).run(&scenarios).await;
    };
    Experiment::new(args, url, scenarios.len()).run(&scenarios).await
}

struct Experiment<'a> {
    args: &'a PositionsArgs,
    url: String,
    progress: Progress,
}

impl<'a> Experiment<'a> {
    fn new(args: &'a PositionsArgs, url: String, scenarios: usize) -> Self {
        let steps = u64::from(SLICES) * Mechanism::ALL.len() as u64;
        Self { args, url, progress: Progress::new(scenarios, steps) }
    }

    async fn run(mut self, scenarios: &[&Scenario]) -> Result<(), Failure> {
        if !self.args.json {
            self.progress.print(|| write_line(&Line::head()))?;
        }
        for scenario in scenarios {
            self.progress.begin(scenario.name);
            let mut grounds = Vec::new();
            let tallies = self.measure(scenario, &mut grounds).await;
            for ground in &grounds {
                ground.clear().await?;
            }
            self.print(scenario, &mut tallies?)?;
        }
        Ok(())
    }

    /// One tally for each mechanism. The grounds that were made are the caller's to clear, whatever happens.
    async fn measure(&self, scenario: &Scenario, grounds: &mut Vec<Ground>) -> Result<Vec<Tally>, Failure> {
        for mechanism in Mechanism::ALL {
            grounds.push(Ground::make(&self.url, mechanism).await?);
        }
        let hold = self.grow_old(scenario, grounds).await?;
        let mut tallies: Vec<Tally> = grounds.iter().map(|_| Tally::default()).collect();
        for number in 1..=SLICES {
            for (ground, tally) in grounds.iter().zip(&mut tallies) {
                self.progress.step(&format!("{}, slice {number} of {SLICES}", ground.mechanism.name()));
                slice::run(scenario, ground, (number, self.args.seconds / SLICES), tally).await?;
            }
        }
        if let Some(hold) = hold {
            hold.release().await?;
        }
        Ok(tallies)
    }

    /// Opens a snapshot, if the scenario wants an old one, and commits until it is old.
    async fn grow_old(&self, scenario: &Scenario, grounds: &[Ground]) -> Result<Option<Hold>, Failure> {
        if scenario.beside != Beside::OldSnapshot {
            return Ok(None);
        }
        let hold = Hold::snapshot(&self.url).await?;
        for ground in grounds {
            self.progress.note(&format!("  {} is growing old", ground.mechanism.name()));
            block_in_place(|| slice::commit(scenario, ground, self.args.aged))?;
        }
        Ok(Some(hold))
    }

    fn print(&self, scenario: &Scenario, tallies: &mut [Tally]) -> Result<(), Failure> {
        for (tally, mechanism) in tallies.iter_mut().zip(Mechanism::ALL) {
            let line = tally.line(scenario.name, mechanism.name());
            self.progress.print(|| line.write(self.args.json))?;
        }
        Ok(())
    }
}
