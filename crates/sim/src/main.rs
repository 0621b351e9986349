//! The command `tidelock-sim`: searches seeds for failures, plays one again, and measures itself.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tidelock_sim::checkers;
use tidelock_sim::history::{Audit, History};
use tidelock_sim::simulator::{
    Cut, Failure, Fault, Medium, Mutant, Plan, Profile, Progress, SHRINKING, SOMETIMES, command,
    find, quiet_panics, search, shrink, simulate, story,
};
use tidelock_test_disk::{compile_shim, shim_environment};

/// Simulates processes and faults from a seed, and checks the whole history of each.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// How long to search.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Which faults to favor: storms, deaths, network, operators, files, power, calm,
    /// or postgres, which takes real time and does not repeat itself.
    #[arg(long, default_value = "storms")]
    profile: String,
    /// Plays only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed of a search; a random one by default.
    #[arg(long)]
    from: Option<u64>,
    /// Fails if a fault or a condition was never reached.
    #[arg(long)]
    complete: bool,
    /// At most this many processes.
    #[arg(long)]
    processes: Option<usize>,
    /// At most this many clients of each process.
    #[arg(long)]
    clients: Option<usize>,
    /// At most this many operations of each client.
    #[arg(long)]
    operations: Option<u64>,
    /// Only these faults at given moments, by their place in the plan; `none` for none.
    #[arg(long, value_delimiter = ',')]
    events: Option<Vec<String>>,
    /// None of these faults of calls.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Plays with this defect.
    #[arg(long)]
    mutant: Option<String>,
    /// Writes the history of the seed to this file, as JSON lines.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Does not make a failing seed smaller.
    #[arg(long)]
    whole: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Reads a history as JSON lines from the standard input, and prints what the checkers found.
    Check,
    /// Looks for every mutant, and prints the table.
    Mutants {
        /// Seeds that are tried for each.
        #[arg(long, default_value_t = 400)]
        seeds: u64,
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
        /// Replaces the table in this page.
        #[arg(long, conflicts_with = "only")]
        page: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    quiet_panics();
    let args = Args::parse();
    let loses_power =
        args.profile == "power" || matches!(args.command, Some(Command::Mutants { .. }));
    if loses_power && std::env::var_os("SHIM_JOURNAL").is_none() {
        return behind_shim().unwrap_or_else(|e| {
            eprintln!("a disk whose power can fail cannot be made: {e}");
            ExitCode::from(2)
        });
    }
    let Some(profile) = Profile::named(&args.profile) else {
        eprintln!("there is no profile {:?}; there are {:?}", args.profile, Profile::NAMES);
        return ExitCode::from(2);
    };
    match (&args.command, args.seed) {
        (Some(Command::Check), _) => check(),
        (Some(Command::Mutants { seeds, only, page }), _) => {
            let (rows, status) = mutants(&profile, *seeds, only.as_deref());
            match page.as_deref().map(|page| replace_table(page, &rows)) {
                Some(Err(e)) => {
                    eprintln!("the table cannot be written: {e}");
                    ExitCode::from(2)
                }
                Some(Ok(())) | None => status,
            }
        }
        (None, Some(seed)) => play(&args, &profile, seed),
        (None, None) => hunt(&args, &profile),
    }
}

/// Starts this program again behind the shim, which keeps a journal of what is written and flushed.
fn behind_shim() -> io::Result<ExitCode> {
    let kept = tempfile::tempdir()?;
    let (place, disk) = (kept.path().canonicalize()?, tempfile::tempdir_in("/dev/shm")?);
    let (shim, disk) = (compile_shim(&place)?, disk.path().canonicalize()?);
    let status = process::Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .envs(shim_environment(&shim, &disk, &place.join("journal"), &place.join("control")))
        .status()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

fn check() -> ExitCode {
    let history = match History::read(io::stdin().lock()) {
        Ok(history) => history,
        Err(e) => {
            eprintln!("the history cannot be read: {e}");
            return ExitCode::from(2);
        }
    };
    let report = checkers::check(&history, &Audit::default());
    print!("{report}");
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn play(args: &Args, profile: &Profile, seed: u64) -> ExitCode {
    let fault = |name: &String| Fault::ALL.iter().copied().find(|fault| fault.name() == name);
    let cut = Cut {
        processes: args.processes,
        clients: args.clients,
        operations: args.operations,
        events: args.events.as_ref().map(|all| all.iter().filter_map(|n| n.parse().ok()).collect()),
        without: args.without.iter().filter_map(fault).collect(),
    };
    let mutant = args.mutant.as_deref().and_then(Mutant::named);
    let plan = Plan { mutant, ..Plan::of(seed, profile).cut(&cut) };
    let report = simulate(&plan);
    println!(
        "seed {seed}: hash {:016x}, {} steps, {} operations",
        report.hash,
        report.steps,
        report.history.operations.len()
    );
    report.undecided.iter().for_each(|what| println!("undecided: {what}"));
    if let Some(path) = &args.history
        && let Err(e) = File::create(path).and_then(|to| report.history.write(BufWriter::new(to)))
    {
        eprintln!("the history cannot be written to {}: {e}", path.display());
        return ExitCode::from(2);
    }
    if report.violations.is_empty() {
        println!("nothing is wrong");
        return ExitCode::SUCCESS;
    }
    let shrinks = cut == Cut::default() && !args.whole && profile.medium != Medium::Server;
    let (cut, report) = match shrinks {
        true => shrink(&plan, report, SHRINKING),
        false => (cut, report),
    };
    tell(&Failure { cut, report }, profile)
}

fn hunt(args: &Args, profile: &Profile) -> ExitCode {
    let first = args.from.unwrap_or_else(|| fastrand::u32(..).into());
    let (began, length) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let mut told = began;
    let (progress, failure) = search(profile, first, |progress| {
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            eprintln!("{}", progress.line(began.elapsed()));
        }
        began.elapsed() > length
    });
    println!("{}", progress.line(began.elapsed()));
    if let Some(failure) = failure {
        return tell(&failure, profile);
    }
    print_coverage(&progress);
    let missing = progress.coverage.missing(profile);
    if args.complete && !missing.is_empty() {
        println!("never reached: {}", missing.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn print_coverage(progress: &Progress) {
    for fault in Fault::ALL {
        let count = progress.coverage.faults.get(fault).copied().unwrap_or(0);
        println!("  fault      {:20} {count}", fault.name());
    }
    for (condition, promise) in SOMETIMES {
        let count = progress.coverage.sometimes.get(condition).copied().unwrap_or(0);
        println!("  sometimes  {condition} ({promise}): {count}");
    }
    println!("  undecided histories: {}", progress.undecided);
}

fn tell(failure: &Failure, profile: &Profile) -> ExitCode {
    println!("{}", story(&failure.report));
    println!("play it again:\n  {}", command(&failure.report, profile.name, &failure.cut));
    ExitCode::FAILURE
}

/// Looks for the mutants, prints each as it is found, and returns the rows of the table.
fn mutants(profile: &Profile, seeds: u64, only: Option<&str>) -> (Vec<String>, ExitCode) {
    let (mut rows, mut status) = (Vec::new(), ExitCode::SUCCESS);
    let wanted = |mutant: &&Mutant| only.is_none_or(|only| format!("{mutant:?}") == only);
    for mutant in Mutant::ALL.iter().filter(wanted) {
        let found = find(*mutant, profile, seeds);
        let (count, how) = match found {
            Some((count, long, found)) => {
                let found: String = found.chars().take(70).collect();
                (count.to_string(), format!("{:.1} s: {found}", long.as_secs_f64()))
            }
            None => {
                status = ExitCode::FAILURE;
                (format!("not in {seeds}"), String::new())
            }
        };
        let row = format!("| {mutant:?} | {} | {count} |", mutant.what());
        println!("{row} {how}");
        rows.push(row);
    }
    (rows, status)
}

const TABLE: &str = "| mutant | what is wrong | seeds |\n|---|---|---:|\n";

fn replace_table(page: &Path, rows: &[String]) -> io::Result<()> {
    let text = std::fs::read_to_string(page)?;
    let (before, after) =
        text.split_once(TABLE).ok_or_else(|| io::Error::other("the page has no such table"))?;
    let end: usize =
        after.split_inclusive('\n').take_while(|l| l.starts_with('|')).map(str::len).sum();
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(page, format!("{before}{TABLE}{rows}{}", &after[end..]))
}
