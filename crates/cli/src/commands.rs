//! The commands, one file each: typed arguments in, lines out.

mod bulk_action;
mod bulk_runs;
mod confirm;
mod interrupt;
mod new_file;
mod paged;
mod target_file;

mod backup;
mod bench;
mod cancel;
mod claims;
mod close;
mod completions;
mod defer;
mod demo;
mod discard;
mod doctor;
mod erase;
mod events;
mod export;
mod import;
mod jobs;
mod leases;
mod migrate;
mod pause;
mod prioritize;
mod projections;
mod reactions;
mod rebuild;
mod release;
mod reroute;
mod reset;
mod resolve;
mod resume;
mod retry;
mod rows;
mod runs;
mod schedules;
mod scopes;
mod serve;
mod signal;
mod skip;
mod streams;
mod unblock;

use crate::Layer;
use crate::args::{Args, Command};
use crate::exit_status::ExitStatus;
use crate::failure::Result;
use crate::output::Output;
use crate::store_url::StoreUrl;

/// What a command works on, and where its output goes.
pub(crate) struct Cx<'a> {
    pub(crate) store_url: &'a StoreUrl,
    pub(crate) out: &'a mut Output,
}

/// Runs the command.
pub(crate) async fn run(args: Args, layer: Layer, out: &mut Output) -> Result<ExitStatus> {
    let store_url = &StoreUrl::meant(args.store.clone()).behind(layer);
    let named_store = args.named_store().map(str::to_owned);
    let cx = Cx { store_url, out };
    match args.command {
        Command::Demo(demo) => demo::run(demo, named_store, cx.out).await?,
        Command::Serve(args) => serve::run(args, cx).await?,
        Command::Streams(args) => streams::run(args, cx).await?,
        Command::Events(args) => events::run(args, cx).await?,
        Command::Leases(args) => leases::run(args, cx).await?,
        Command::Reactions(args) => reactions::run(args, cx).await?,
        Command::Projections(args) => projections::run(args, cx).await?,
        Command::Rows(args) => rows::run(args, cx).await?,
        Command::Jobs(args) => jobs::run(args, cx).await?,
        Command::Discard(args) => discard::run(args, cx).await?,
        Command::Schedules(args) => schedules::run(args, cx).await?,
        Command::Pause(args) => pause::run(args, cx).await?,
        Command::Runs(args) => runs::run(args, cx).await?,
        Command::Signal(args) => signal::run(args, cx).await?,
        Command::Cancel(args) => cancel::run(args, cx).await?,
        Command::Retry(args) => retry::run(args, cx).await?,
        Command::Resume(args) => resume::run(args, cx).await?,
        Command::Resolve(args) => resolve::run(args, cx).await?,
        Command::Scopes(args) => scopes::run(args, cx).await?,
        Command::Claims(args) => claims::run(args, cx).await?,
        Command::Release(args) => release::run(args, cx).await?,
        Command::Doctor(args) => return doctor::run(args, cx).await,
        Command::Unblock(args) => unblock::run(args, cx).await?,
        Command::Skip(args) => skip::run(args, cx).await?,
        Command::Reset(args) => reset::run(args, cx).await?,
        Command::Rebuild(args) => rebuild::run(args, cx).await?,
        Command::Defer(args) => defer::run(args, cx).await?,
        Command::Prioritize(args) => prioritize::run(args, cx).await?,
        Command::Reroute(args) => reroute::run(args, cx).await?,
        Command::Erase(args) => erase::run(args, cx).await?,
        Command::Close(args) => close::run(args, cx).await?,
        Command::Backup(args) => backup::run(args, cx).await?,
        Command::Export(args) => export::run(args, cx).await?,
        Command::Import(args) => import::run(args, cx).await?,
        Command::Migrate(args) => return migrate::run(args, cx).await,
        Command::Completions { shell } => completions::run(shell, cx.out)?,
        Command::Stress(passed) => bench::run("stress", &passed, named_store.as_deref())?,
        Command::Bench(passed) => bench::run("bench", &passed, named_store.as_deref())?,
    }
    Ok(ExitStatus::Success)
}
