//! Command-line arguments.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Measures the stores, beside a baseline in the same run.
#[derive(Debug, Parser)]
#[command(name = "tidelock-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a store
    ///
    /// Per workload: operations per second, the time of one call (p50 and p99), the baseline (plain
    /// SQL on the same rows, in the same run), and the ratio of the two.
    Store(StoreArgs),
    /// Measure decisions and loads on a store
    ///
    /// Per workload: operations per second, the time of one call (p50 and p99), and as the baseline
    /// the same commits or reads made directly on the store, in the same run; for the hot
    /// aggregate, as many callers with one aggregate each.
    Events(StoreArgs),
    /// Measure claims: keys claimed and completed, one contended key, locks taken and released, and
    /// a quota under contention; each beside a baseline
    Claims(StoreArgs),
    /// Measure mutations of scopes
    ///
    /// Per workload: operations per second, the time of one call (p50 and p99), and as the baseline
    /// a plain lock around the same state, or, for the hot durable scope, as many callers that
    /// commit to separate keys, in the same run.
    Scopes(StoreArgs),
    /// Measure reactions
    ///
    /// Events per second committed by 32 callers, and drained by a reaction with an empty handler,
    /// routing included; and the time from a commit to its handler (p50 and p99).
    Reactions(ReactionsArgs),
    /// Measure the HTTP edge
    ///
    /// Requests per second to a handler behind the idempotency layer, first requests and replays,
    /// by one client and by 32; the time of one (p50 and p99); and as the baseline the same handler
    /// without the layer.
    Http(HttpArgs),
    /// Measure the HTTP API
    ///
    /// Appends per second over HTTP by many connections, beside the same appends in this process,
    /// on the same store; with stalled followers, beside without; and, with --minutes, the memory
    /// of a separate server process under load.
    Serve(ServeArgs),
    /// Measure runs
    ///
    /// Runs of five trivial steps, beside the commits that they need as the baseline, in the same
    /// run, and the store calls of a run; the time to resume a run by the number of recorded steps;
    /// and the cost of a worker while all runs sleep.
    Runs(RunsArgs),
    /// Measure jobs
    ///
    /// Jobs per second that are enqueued, by one caller and by 32, alone and a hundred in each
    /// call, beside commits of as many events; and worked off by one process and by four, with
    /// global limits and pauses unused and used. With --peer, beside the job queues of others on
    /// the same PostgreSQL server, in turns. And the calls of the store that a job costs.
    Jobs(JobsArgs),
    /// Do a lot of short-lived work, and check what is left of it
    ///
    /// Runs, keyed requests, queue items, operations and scopes, in ten slices; after each one the
    /// store's clock is set forward past every retention. Per store: operations per second by
    /// slice, and the rows and bytes that are left, beside those of an empty store. Fails if more
    /// is left than in an empty store and a few rows.
    Soak(SoakArgs),
    /// One process of `store` (internal)
    #[command(hide = true)]
    TeamMember(MemberArgs),
    /// The server of `serve --minutes` (internal)
    #[command(hide = true)]
    Server,
    /// One process of `jobs` (internal)
    #[command(hide = true)]
    JobsWorker(JobsWorkerArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// memory:, sqlite: (a new file in a temporary folder), sqlite:PATH (a file that does not exist
    /// yet), postgres: (a private server) or `postgres://USER@HOST/DATABASE` (schemas named
    /// `tidelock_bench…`); everything created is removed afterwards
    pub(crate) url: String,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure only this workload, such as commit-1, or commit-1@32 for 32 callers; can be repeated
    #[arg(long, value_name = "WORKLOAD")]
    pub(crate) only: Vec<Choice>,
    /// Seconds to measure each workload for, and its baseline for as long again
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Leases to make before lease-10-churned is measured [default: 2000000, or 0 in a run of less
    /// than a second each]; 0 skips it
    #[arg(long, value_name = "N")]
    churn: Option<usize>,
}

/// A full run does this; a run that is too short for meaningful figures does not.
const CHURN: usize = 2_000_000;
const FULL_RUN: Duration = Duration::from_secs(1);

impl StoreArgs {
    pub(crate) fn churn(&self) -> usize {
        self.churn.unwrap_or(if self.seconds < FULL_RUN { 0 } else { CHURN })
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReactionsArgs {
    /// As for `store`
    pub(crate) url: String,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Rounds of each drain; the median is reported
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) rounds: usize,
    #[command(flatten)]
    pub(crate) size: DrainSize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HttpArgs {
    /// As for `store`
    pub(crate) url: String,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds to measure each workload for, and the handler without the layer for as long again
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// As for `store`
    pub(crate) url: String,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Concurrent connections, and callers in this process
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Seconds to measure each side for
    #[arg(long, value_name = "N", default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Minutes to measure memory under load
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) minutes: u32,
}

/// The size of a drain.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DrainSize {
    /// Events to commit and to drain
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub(crate) events: usize,
    /// Number of streams
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) targets: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// As for `store`; several are measured one after the other
    #[arg(required = true, value_name = "STORE")]
    pub(crate) urls: Vec<String>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure only this; can be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<RunsPart>,
    /// Seconds to measure runs for, their commits for as long again, and a worker without work
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Recorded steps of a resumed run
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10, 1_000, 10_000])]
    pub(crate) recorded: Vec<usize>,
    /// Resumes of each run; the median is reported
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) rounds: usize,
    /// Number of sleeping runs
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) sleeping: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// sqlite: or postgres:, as for `store`; several are measured one after the other
    #[arg(required = true, value_name = "STORE")]
    pub(crate) urls: Vec<String>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure only this; can be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<JobsPart>,
    /// Seconds to enqueue for, and as long again for each of the others
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Jobs of a backlog
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) jobs: usize,
    /// Times that each backlog is worked off; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Jobs that a process works on at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) slots: usize,
    /// The program of the job queues to compare with: `crates/bench/peers`, compiled
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) peer: Option<PathBuf>,
}

/// A measurement of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum JobsPart {
    /// Jobs that are enqueued
    Enqueue,
    /// Jobs that are worked off
    Drain,
    /// Calls of the store
    Calls,
}

impl JobsArgs {
    pub(crate) fn measures(&self, part: JobsPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobsWorkerArgs {
    #[arg(long)]
    pub(crate) slots: usize,
    /// Work off the jobs that have a global limit
    #[arg(long)]
    pub(crate) limited: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    /// sqlite: or postgres:, as for `store`; several are measured one after the other
    #[arg(required = true, value_name = "STORE")]
    pub(crate) urls: Vec<String>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Operations of each kind
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) count: usize,
    /// Concurrent callers
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) callers: usize,
    /// Also fail if the speed of the last slice is below 0.9 of the first
    #[arg(long)]
    pub(crate) check_speed: bool,
}

/// A measurement of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunsPart {
    /// Runs of five steps
    Flow,
    /// Resumes of runs with a history
    Resume,
    /// A worker without work
    Idle,
}

impl RunsArgs {
    pub(crate) fn measures(&self, part: RunsPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct MemberArgs {
    /// The number of the first caller's stream
    #[arg(long)]
    pub(crate) first: usize,
    #[arg(long)]
    pub(crate) callers: usize,
}

/// A workload by name, at all its numbers of callers or at one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) workload: String,
    pub(crate) callers: Option<usize>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((workload, callers)) = text.split_once('@') else {
            return Ok(Self { workload: text.to_owned(), callers: None });
        };
        let callers =
            callers.parse().map_err(|_| format!("{callers:?} is no number of callers"))?;
        Ok(Self { workload: workload.to_owned(), callers: Some(callers) })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be a number of seconds from 0.01 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_name_with_or_without_callers() {
        let choice = |text: &str| text.parse::<Choice>().map(|c| (c.workload, c.callers));
        assert_eq!(choice("feed"), Ok(("feed".to_owned(), None)));
        assert_eq!(choice("commit-1@32"), Ok(("commit-1".to_owned(), Some(32))));
        assert!(choice("commit-1@many").is_err());
    }

    #[test]
    fn a_duration_is_within_its_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for refused in ["0", "-1", "NaN", "inf", "3601", "soon"] {
            assert!(seconds(refused).is_err(), "{refused}");
        }
    }
}
