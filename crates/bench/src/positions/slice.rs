//! One slice: all processes of a scenario write for a while, and a reader follows.

use std::time::Duration;

use tokio::task::block_in_place;

use super::ground::Ground;
use super::hold::Hold;
use super::process::{Process, Task};
use super::reader::Reader;
use super::scanner::Scanner;
use super::scenario::{Beside, Scenario};
use super::tally::Tally;
use super::writer::Written;
use crate::failure::Failure;

/// Runs the slice of this number.
pub(super) async fn run(
    scenario: &Scenario,
    ground: &Ground,
    (number, time): (u32, Duration),
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut processes = start(scenario, ground, number, time)?;
    let reader = Reader::start(ground).await?;
    let hold = match scenario.beside {
        Beside::OpenWriter => Some(Hold::writer(&ground.url).await?),
        _ => None,
    };
    let scanner = match scenario.beside {
        Beside::Scan => Some(Scanner::start(ground).await?),
        _ => None,
    };
    let written = block_in_place(|| write(&mut processes))?;
    if let Some(scanner) = scanner {
        tally.add_scanned(scanner.finish().await?);
    }
    if let Some(hold) = hold {
        hold.release().await?;
    }
    tally.add_written(&written);
    check(ground, reader, &written, tally).await
}

fn start(scenario: &Scenario, ground: &Ground, number: u32, time: Duration) -> Result<Vec<Process>, Failure> {
    let task =
        |process| Task { ground, scenario, name: format!("{number:02}-{process}"), time, commits: None };
    (0..scenario.processes).map(|process| Process::start(&task(process))).collect()
}

fn write(processes: &mut [Process]) -> Result<Vec<Written>, Failure> {
    processes.iter_mut().try_for_each(Process::go)?;
    processes.iter_mut().map(Process::written).collect()
}

/// Everything that was acknowledged is there, and the reader has seen everything that is there, in order.
async fn check(
    ground: &Ground,
    reader: Reader,
    written: &[Written],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let there = ground.count_after(reader.from).await?.unsigned_abs();
    let acked: usize = written.iter().map(|written| written.acks.len()).sum();
    if there != acked as u64 {
        return Err(Failure::Answer(format!("{acked} commits were acknowledged, and {there} are there")));
    }
    let end = ground.end().await?;
    let seen = reader.finish(end).await?;
    tally.add_seen(written, &seen, there);
    if (tally.skipped, tally.disordered) != (0, 0) && !ground.mechanism.may_skip() {
        let (name, skipped, disordered) = (ground.mechanism.name(), tally.skipped, tally.disordered);
        return Err(Failure::Answer(format!("{name}: {skipped} skipped, {disordered} out of order")));
    }
    Ok(())
}

/// Lets each caller of one process make this many commits, and looks at nothing.
pub(super) fn commit(scenario: &Scenario, ground: &Ground, commits: u64) -> Result<(), Failure> {
    let (name, time) = ("old".to_owned(), Duration::from_secs(3600));
    let mut process = Process::start(&Task { ground, scenario, name, time, commits: Some(commits) })?;
    process.go()?;
    process.written().map(drop)
}
