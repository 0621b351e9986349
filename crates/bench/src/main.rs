//! How fast the stores are: `cargo run --release -p tidelock-bench -- store <url>`.
//!
//! Every figure stands beside the bare limit of the same run: plain `rusqlite` writing or reading the same rows of the
//! same tables, in the best grouping there could be, on one thread, with no contract in between. Ours and the bare
//! loop take turns, slice by slice, so that a noisy machine is noisy to both: quote the ratio, never the absolutes.
//!
//! Not here: micro-benchmarks, and other people's systems.

mod args;
mod failure;

mod rows;
mod site;
mod workloads;

mod bare;
mod measure;

mod progress;
mod report;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command, StoreArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::Report;
use crate::site::Target;
use crate::workloads::Bench;

/// Threads that drive the callers; as many as the machines that the targets are stated for have cores.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let Command::Store(args) = Args::parse().command;
    match bench(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn bench(args: &StoreArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build()?;
    runtime.block_on(measure_all(args))
}

async fn measure_all(args: &StoreArgs) -> Result<(), Failure> {
    let cases = workloads::chosen(&args.only)?;
    let target = Target::parse(&args.url)?;
    let report = Report::new(args.json);
    let mut progress = Progress::new(cases.len());
    progress.note(&format!("measuring {target}"));
    progress.print(|| report.head())?;
    for case in cases {
        progress.begin(case);
        let bench = Bench { target: &target, time: args.seconds, progress: &progress };
        let measured = workloads::measure(case, &bench).await?;
        progress.print(|| report.row(case, &measured))?;
    }
    Ok(())
}
