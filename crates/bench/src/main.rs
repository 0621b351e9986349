//! Benchmarks of the stores: `cargo run --release -p tidelock-bench -- store <url>`.
//!
//! Every figure stands beside a baseline of the same run: plain SQL that writes or reads the same
//! rows, without the contract. Tidelock and the baseline alternate, slice by slice, so that noise
//! of the machine affects both: quote the ratio, never the absolute figures.
//!
//! Not here: micro-benchmarks. Other systems are driven by a program of their own (`peers`), so
//! that what measures Tidelock alone compiles none of them.

mod args;
mod failure;

mod database;
mod fixture;
mod rows;
mod schemas;
mod target;
mod workloads;

mod baseline;
mod child;
mod clock;
mod measure;

mod http;
mod jobs;
mod reactions;
mod runs;
mod serve;
mod soak;

mod check;
mod progress;
mod report;

use std::process::ExitCode;

use clap::Parser;
use tokio::task::block_in_place;

use crate::args::{Args, Command, StoreArgs};
use crate::failure::Failure;
use crate::measure::SLICES;
use crate::progress::Progress;
use crate::report::Report;
use crate::target::Target;
use crate::workloads::{Bench, Case, Workload};

/// Threads that drive the callers; as many as the cores of the machines for which the targets are
/// stated.
const WORKERS: usize = 2;

/// Steps of one workload: filling, then each slice.
const STEPS: u64 = 1 + SLICES as u64;

fn main() -> ExitCode {
    match bench(&Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn bench(command: &Command) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Store(args) => measure_store(args).await,
            Command::Events(args) => measure_events(args).await,
            Command::Claims(args) => measure_claims(args).await,
            Command::Scopes(args) => measure_scopes(args).await,
            Command::TeamMember(args) => workloads::serve(args).await,
            Command::Http(args) => http::measure_all(args).await,
            Command::Serve(args) => serve::measure_all(args).await,
            Command::Server => serve::serve_in_process().await,
            Command::Reactions(args) => reactions::measure_all(args).await,
            Command::Runs(args) => runs::measure_all(args).await,
            Command::Jobs(args) => jobs::measure_all(args).await,
            Command::JobsWorker(args) => jobs::work(args).await,
            Command::Soak(args) => soak::measure_all(args).await,
        }
    })
}

async fn measure_store(args: &StoreArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let mut cases = workloads::chosen(&target, &args.only)?;
    cases.retain(|case| args.churn() > 0 || !matches!(case.workload, Workload::Churned { .. }));
    measure_all(args, &target, cases).await
}

async fn measure_events(args: &StoreArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let cases = workloads::chosen_events(&args.only)?;
    measure_all(args, &target, cases).await
}

async fn measure_scopes(args: &StoreArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let cases = workloads::chosen_scopes(&args.only)?;
    measure_all(args, &target, cases).await
}

async fn measure_claims(args: &StoreArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let cases = workloads::chosen_claims(&args.only)?;
    measure_all(args, &target, cases).await
}

async fn measure_all(
    args: &StoreArgs,
    target: &Target,
    cases: Vec<&'static Case>,
) -> Result<(), Failure> {
    let report = Report::new(args.json);
    let mut progress = Progress::new(cases.len(), STEPS);
    progress.note(&format!("measuring {target}"));
    let about = target.describe().await?;
    progress.print(|| report.head(about.as_deref()))?;
    for case in cases {
        progress.begin(&format!("{}@{}", case.name, case.callers));
        let bench = Bench { target, time: args.seconds, churn: args.churn(), progress: &progress };
        let measured = workloads::measure(case, &bench).await?;
        progress.print(|| report.row(case, &measured))?;
    }
    Ok(())
}
