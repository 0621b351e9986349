//! The command line, as types.

mod environment;
mod jobs;
mod listing;
mod operator;
mod runs;
mod serve;
mod transfer;
mod values;

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use environment::WithEnvironment;

pub(crate) use jobs::{
    DiscardArgs, JobsArgs, PauseArgs, PauseSubjectArgs, ScheduleContent, SchedulesArgs,
};
pub(crate) use listing::{
    ClaimsArgs, DoctorArgs, EventsArgs, LeasesArgs, Paging, ProjectionsArgs, ReactionsArgs,
    RowsArgs, ScopesArgs, StreamsArgs,
};
pub(crate) use operator::{
    CloseArgs, DeferArgs, EraseArgs, Origin, PrioritizeArgs, RebuildArgs, ReleaseArgs, RerouteArgs,
    ResetArgs, Selector, SkipArgs, UnblockArgs,
};
pub(crate) use runs::{
    CancelArgs, ResolveArgs, ResumeArgs, RetryArgs, RunSelector, RunsArgs, SignalArgs,
};
pub(crate) use serve::{LogFormat, ServeArgs};
pub(crate) use transfer::{BackupArgs, ExportArgs, ImportArgs, ImportReactions, MigrateArgs};

/// A separate text, because a URL in documentation would become a link.
const STORE: &str = "Store to use: sqlite:PATH or postgres://USER@HOST/DATABASE [default: DATABASE_URL, else sqlite:tidelock.db]";

/// Correct concurrency for stateful services: five patterns over one store.
///
/// Exit codes: 0 success; 1 failure, or the command found a problem; 2 invalid arguments; 3 the
/// store is missing or cannot be opened; 4 the store refused, and nothing was done.
///
/// Each option can be set by an environment variable, too; the command line comes first.
#[derive(Debug, Parser)]
#[command(name = "tidelock", version)]
pub(crate) struct Args {
    #[arg(long, global = true, value_name = "URL", help = STORE)]
    pub(crate) store: Option<String>,
    /// Print JSON, one line per entry, instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether the store is named on the command line, and not by the environment.
    #[arg(skip)]
    names_store: bool,
}

impl Args {
    /// Parses the command line and the environment of this process. Ends the process if there is
    /// nothing to run: with 0 after help, with 2 after an invalid argument.
    pub(crate) fn of_process() -> Self {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let WithEnvironment { mut line, set } = WithEnvironment::new(Self::command(), &arguments);
        let parsed = line.try_get_matches_from_mut(arguments).and_then(|matches| {
            let names_store = matches.value_source("store") == Some(ValueSource::CommandLine);
            Ok(Self { names_store, ..Self::from_arg_matches(&matches)? })
        });
        parsed.unwrap_or_else(|error| {
            let error = error.format(&mut line);
            if error.use_stderr() && !set.is_empty() {
                // Of no use if it cannot be written.
                let _unread = error.print();
                eprintln!("\nThe environment sets {}.", set.join(", "));
                std::process::exit(error.exit_code());
            }
            error.exit()
        })
    }

    /// The store, if the command line names it: for what must not meet another store by accident.
    pub(crate) fn named_store(&self) -> Option<&str> {
        self.store.as_deref().filter(|_| self.names_store)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell a short story that shows what the store promises
    ///
    /// One line per step. Each scene reads its result back from the store; if a claim does not
    /// hold, the exit code is 1. Without --store it uses a new SQLite file, which is removed
    /// afterwards. Then the inspector is served on that store, with a running shop, until it is
    /// interrupted.
    Demo(DemoArgs),
    /// Serve the HTTP API of the store, and the inspector
    ///
    /// Without tokens it is read-only, and listens on this machine only. On an interrupt it ends
    /// once requests in flight are answered; on a second one, at once.
    Serve(ServeArgs),
    /// List streams
    Streams(StreamsArgs),
    /// Show the events of a stream, or of all streams, and follow new ones
    Events(EventsArgs),
    /// List work items: due, leased or failed
    Leases(LeasesArgs),
    /// List the targets of reactions with their lag, or the progress of routing
    Reactions(ReactionsArgs),
    /// List projections, and how far their rebuilds are
    Projections(ProjectionsArgs),
    /// Show the rows of a projection, or the row of one target
    Rows(RowsArgs),
    /// List jobs: waiting, running or failed; ended ones by their state
    Jobs(JobsArgs),
    /// End jobs without having done them: blocked ones, or all that are unfinished
    ///
    /// Blocked jobs are retried with unblock.
    Discard(DiscardArgs),
    /// List schedules; pause, resume, trigger or delete one
    Schedules(SchedulesArgs),
    /// Pause a queue, a reaction or a workflow; or list what is paused
    ///
    /// No process leases anything new of it, until it is resumed. What runs is not interrupted.
    Pause(PauseArgs),
    /// List runs, or show the status of one
    Runs(RunsArgs),
    /// Send a signal to a run
    Signal(SignalArgs),
    /// Ask runs to cancel and clean up; or terminate them at once
    Cancel(CancelArgs),
    /// Retry failed runs from the steps that failed
    Retry(RetryArgs),
    /// Resume a parked run at once; or a queue, a reaction or a workflow that is paused
    Resume(ResumeArgs),
    /// Resolve a step with an unknown outcome
    Resolve(ResolveArgs),
    /// List scopes: state documents, by kind and id
    Scopes(ScopesArgs),
    /// List claims and locks with their holders; or the use of quotas
    Claims(ClaimsArgs),
    /// Release a claim whose holder died
    ///
    /// The next claimant takes such a claim over anyway, so this is for claims that are never
    /// requested again. A claim that is held, or that was completed, is left as it is.
    Release(ReleaseArgs),
    /// Say why something is not moving, and which command fixes it
    ///
    /// The exit code is 0 if there are no errors, and 1 if there are. Warnings do not count.
    Doctor(DoctorArgs),
    /// Unblock items: they continue where they stopped
    Unblock(UnblockArgs),
    /// Skip the event that a target of a reaction is blocked on: later ones are handled
    ///
    /// The event and the reason are kept; reactions --skipped lists them. Jobs are discarded
    /// instead: nothing waits behind one.
    Skip(SkipArgs),
    /// Start items over
    ///
    /// A reaction handles every event again. Its effects outside the store are not repeated unless
    /// requested. A worker that holds an item loses its lease.
    Reset(ResetArgs),
    /// Rebuild a projection beside the rows that are read; or give up a rebuild
    ///
    /// Readers go on with the old rows until every new one is complete. The processes that run the
    /// projection do the work, with the fold that they have.
    Rebuild(RebuildArgs),
    /// Keep items from being leased for a while
    Defer(DeferArgs),
    /// Change the priority of items
    Prioritize(PrioritizeArgs),
    /// Route a reaction's events again, after its log was restored or its route failed
    Reroute(RerouteArgs),
    /// Erase the personal data of a subject; the events stay, without it
    ///
    /// Nothing about the subject can be added afterwards. Backups and copies still have the data.
    Erase(EraseArgs),
    /// Close a stream permanently: archive its events to a file, and remove them
    Close(CloseArgs),
    /// Copy an SQLite store to a new file while it is in use, and verify the copy
    ///
    /// The copy has its name once it is complete. Restore it with migrate --restored.
    Backup(BackupArgs),
    /// Write everything in the store to a file, as JSON lines
    Export(ExportArgs),
    /// Read an export into a store; after an interruption, the same command continues
    Import(ImportArgs),
    /// Create the store, or bring its tables up to date
    Migrate(MigrateArgs),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Kill real processes on a store and audit what they did: runs tidelock-stress
    #[command(disable_help_flag = true)]
    Stress(ForwardedArgs),
    /// Measure the store: runs tidelock-bench
    #[command(disable_help_flag = true)]
    Bench(ForwardedArgs),
}

/// Arguments that are passed on unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct ForwardedArgs {
    /// Arguments of the other program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// End after the story, without the inspector
    #[arg(long)]
    pub(crate) once: bool,
    /// Where to serve the inspector; another port if this one is taken
    #[arg(long, default_value = "127.0.0.1:7171", value_name = "ADDRESS")]
    pub(crate) listen: std::net::SocketAddr,
}
