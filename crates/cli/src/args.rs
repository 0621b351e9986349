//! What can be typed, as types.

mod listing;
mod operator;
mod runs;
mod serving;
mod transfer;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use listing::{
    ClaimsArgs, DoctorArgs, EventsArgs, LeasesArgs, ReactionsArgs, ScopesArgs, StreamsArgs,
};
pub(crate) use operator::{
    CloseArgs, DeferArgs, Origin, PrioritizeArgs, ReleaseArgs, RerouteArgs, ResetArgs, UnblockArgs,
    Which,
};
pub(crate) use runs::{CancelArgs, ResolveArgs, ResumeArgs, RetryArgs, RunsArgs, SignalArgs};
pub(crate) use serving::ServeArgs;
pub(crate) use transfer::{ExportArgs, ImportArgs, MigrateArgs, ReactionsThen};

/// Its own text, because a URL in documentation would become a link.
const STORE: &str = "Store to use: sqlite:PATH or postgres://USER@HOST/DATABASE [default: TIDELOCK_STORE, else sqlite:tidelock.db]";

/// Correct concurrency for stateful services: five patterns over one store.
///
/// Exit codes: 0 all went well; 1 something failed, or was found; 2 what was asked for makes no
/// sense; 3 the store is not there or cannot be opened; 4 the store refused, and nothing was done.
#[derive(Debug, Parser)]
#[command(name = "tidelock", version)]
pub(crate) struct Args {
    #[arg(long, global = true, value_name = "URL", help = STORE)]
    pub(crate) store: Option<String>,
    /// Print JSON, a line for each thing, instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell a short story that shows what the store promises
    ///
    /// A line per thing that happens. Each scene reads back from the store what it claims; if a
    /// claim is not so, the exit code is 1. Without --store it plays on a new SQLite file, which is
    /// removed afterwards. Then the inspector is served over that store, with a shop that goes on
    /// in it, until somebody interrupts it.
    Demo(DemoArgs),
    /// Serve the HTTP API of the store, and the inspector
    ///
    /// Without tokens it is read-only, and only this machine can reach it. It ends when it is
    /// interrupted, once everybody has their answer; interrupted again, at once.
    Serve(ServeArgs),
    /// List streams
    Streams(StreamsArgs),
    /// Show the events of a stream, or of all streams, and follow new ones
    Events(EventsArgs),
    /// List work items: what is due, who holds what, what failed
    Leases(LeasesArgs),
    /// List the targets of reactions with their lag, or how far events are routed
    Reactions(ReactionsArgs),
    /// List runs, or show where one stands
    Runs(RunsArgs),
    /// Send a run a signal
    Signal(SignalArgs),
    /// Ask a run to cancel and to clean up after itself; or end it at once
    Cancel(CancelArgs),
    /// Let a failed run go on from the step that failed
    Retry(RetryArgs),
    /// Let a parked run go on at once
    Resume(ResumeArgs),
    /// Say what became of a step of which nobody knows whether it was done
    Resolve(ResolveArgs),
    /// List scopes: state documents, by kind and id
    Scopes(ScopesArgs),
    /// List claims and locks, and who is at them; or how much of each quota is taken
    Claims(ClaimsArgs),
    /// Free a claim whose claimant died
    ///
    /// Whoever asks for such a claim next takes it over, so this is for those of which nobody will
    /// ask again. A claim that somebody is at, and one that was done, stay as they are.
    Release(ReleaseArgs),
    /// Say why something is not moving, and which command mends it
    ///
    /// The exit code is 0 if nothing is wrong, and 1 if something is. Notices alone do not count.
    Doctor(DoctorArgs),
    /// Let blocked items go on where they stopped
    Unblock(UnblockArgs),
    /// Let items begin anew
    ///
    /// A reaction handles every event again. What it did outside the store is not repeated unless
    /// asked for. Whoever is at an item loses the lease.
    Reset(ResetArgs),
    /// Keep items from being worked on for a while
    Defer(DeferArgs),
    /// Change how urgent items are
    Prioritize(PrioritizeArgs),
    /// Route a reaction's events anew, after its log was restored or its route failed
    Reroute(RerouteArgs),
    /// Close a stream for good: archive its events to a file, and clear them away
    Close(CloseArgs),
    /// Write everything in the store to a file, as JSON lines
    Export(ExportArgs),
    /// Read an export into a store; after an interruption, the same command goes on
    Import(ImportArgs),
    /// Make the store, or bring its tables up to date
    Migrate(MigrateArgs),
    /// Print a script that completes this command's arguments in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Injure real processes on a store and audit what they did: runs tidelock-stress
    #[command(disable_help_flag = true)]
    Stress(Passed),
    /// Measure the store: runs tidelock-bench
    #[command(disable_help_flag = true)]
    Bench(Passed),
}

/// What is passed on as it was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Passed {
    /// Arguments of the other program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// End when the story is told, without the inspector
    #[arg(long)]
    pub(crate) once: bool,
    /// Where to serve the inspector; another port if this one is taken
    #[arg(long, default_value = "127.0.0.1:7171", value_name = "ADDRESS")]
    pub(crate) listen: std::net::SocketAddr,
}
