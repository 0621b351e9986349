//! A whole run: every chosen scenario, repeated while there is time, and the summary.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidelock::store::{Store, StoreErrorKind};
use tokio::runtime::{Builder, Runtime};

use crate::args::Args;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::rng::{Rng, fresh_seed};
use crate::round::Rounds;
use crate::scenarios::{self, Scenario};
use crate::summary::{Row, table};
use crate::target::Target;

/// Duration of the drain and the audit of a round, for the bar.
const SECONDS_AROUND: u64 = 2;

/// Runs the chosen scenarios; returns whether nothing was found.
pub(crate) fn run(args: &Args) -> Result<bool, Failure> {
    let chosen = scenarios::chosen(&args.scenarios)?;
    let target = Target::parse(&args.store)?;
    check_some_apply(&target, &chosen)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = open(&runtime, &target)?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let progress = Progress::new(expected_seconds(args, chosen.len() as u64));
    progress.note(&format!("stressing {target} with seed {seed}; to make the same choices again:"));
    progress.note(&format!("  {}", args.replay(seed)));
    let rounds = Rounds { args, target: &target, runtime: &runtime, store, progress: &progress };
    let journals = tempfile::Builder::new().prefix("tidelock-stress-journals-").tempdir()?;
    let outcome = run_all(&rounds, &chosen, seed, journals.path());
    let is_clean =
        outcome.as_ref().is_ok_and(|rows| rows.iter().all(|row| row.findings.is_empty()));
    if !is_clean {
        keep(journals, &progress);
    }
    progress.print(&table(&outcome?))?;
    Ok(is_clean)
}

fn open(runtime: &Runtime, target: &Target) -> Result<Arc<dyn Store>, Failure> {
    runtime.block_on(tidelock::open(&target.url())).map_err(|error| match error.kind() {
        StoreErrorKind::Invalid => Failure::Usage {
            what: format!("cannot open the store: {}", error.context()),
            hint: "the URL as tidelock::open takes it".to_owned(),
        },
        _ => error.into(),
    })
}

/// A run in which everything is skipped would pass, and prove nothing.
fn check_some_apply(target: &Target, chosen: &[&'static Scenario]) -> Result<(), Failure> {
    let lacks: Vec<&str> =
        chosen.iter().filter_map(|scenario| target.lacks(scenario.needs)).collect();
    if lacks.len() < chosen.len() {
        return Ok(());
    }
    Err(Failure::Usage {
        what: format!("none of these scenarios applies to {target}: {}", lacks.join("; ")),
        hint: "--store postgres:, or another scenario".to_owned(),
    })
}

fn expected_seconds(args: &Args, scenarios: u64) -> u64 {
    args.minutes.map_or(scenarios * (args.seconds + SECONDS_AROUND), |minutes| 60 * minutes)
}

/// Runs every scenario once, and again while there is time.
fn run_all(
    rounds: &Rounds<'_>,
    chosen: &[&'static Scenario],
    seed: u64,
    journals: &Path,
) -> Result<Vec<Row>, Failure> {
    let end = Instant::now() + Duration::from_secs(60 * rounds.args.minutes.unwrap_or(0));
    let mut rng = Rng::seeded(seed);
    let mut rows: Vec<Row> =
        chosen.iter().map(|scenario| first_row(rounds.target, scenario)).collect();
    for round in 0.. {
        if round > 0 && Instant::now() >= end {
            break;
        }
        for (scenario, row) in chosen.iter().zip(&mut rows) {
            let folder = journals.join(format!("{round}-{}", scenario.name));
            run_round(rounds, scenario, rng.next(), &folder, row)?;
        }
    }
    Ok(rows)
}

fn first_row(target: &Target, scenario: &Scenario) -> Row {
    match target.lacks(scenario.needs) {
        Some(why) => Row::skipped(scenario.name, why),
        None => Row::new(scenario.name),
    }
}

/// Runs a scenario once, with the journals in this folder, and adds the outcome to its row.
fn run_round(
    rounds: &Rounds<'_>,
    scenario: &Scenario,
    seed: u64,
    folder: &Path,
    row: &mut Row,
) -> Result<(), Failure> {
    let Ok(sum) = &mut row.result else { return Ok(()) };
    rounds.progress.begin(scenario.name);
    fs::create_dir(folder)?;
    let outcome = rounds.run_round(scenario, seed, folder)?;
    sum.add(&outcome.tally);
    if outcome.findings.is_empty() {
        // The journals of a clean round are of no use.
        fs::remove_dir_all(folder)?;
    }
    row.findings.extend(outcome.findings);
    Ok(())
}

fn keep(journals: TempDir, progress: &Progress) {
    progress.note(&format!("the journals are kept in {}", journals.keep().display()));
}
