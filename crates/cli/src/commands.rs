//! The commands, one file each: typed arguments in, lines out.

mod bulk_action;
mod confirm;
mod interrupt;
mod pages;

mod bench;
mod cancel;
mod claims;
mod close;
mod completions;
mod defer;
mod demo;
mod doctor;
mod events;
mod export;
mod import;
mod leases;
mod migrate;
mod prioritize;
mod reactions;
mod release;
mod reroute;
mod reset;
mod resolve;
mod resume;
mod retry;
mod runs;
mod scopes;
mod serve;
mod signal;
mod streams;
mod unblock;

use crate::Layer;
use crate::args::{Args, Command};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::output::Output;
use crate::store_url::StoreUrl;

/// Runs the command.
pub(crate) async fn run(args: Args, layer: Layer, out: &mut Output) -> Result<ExitStatus, Failure> {
    let store_url = || StoreUrl::meant(args.store.clone()).behind(layer);
    match args.command {
        Command::Demo(demo) => demo::run(demo, args.store, out).await?,
        Command::Serve(args) => serve::run(args, &store_url(), out).await?,
        Command::Streams(args) => streams::run(args, &store_url(), out).await?,
        Command::Events(args) => events::run(args, &store_url(), out).await?,
        Command::Leases(args) => leases::run(args, &store_url(), out).await?,
        Command::Reactions(args) => reactions::run(args, &store_url(), out).await?,
        Command::Runs(args) => runs::run(args, &store_url(), out).await?,
        Command::Signal(args) => signal::run(args, &store_url(), out).await?,
        Command::Cancel(args) => cancel::run(args, &store_url(), out).await?,
        Command::Retry(args) => retry::run(args, &store_url(), out).await?,
        Command::Resume(args) => resume::run(args, &store_url(), out).await?,
        Command::Resolve(args) => resolve::run(args, &store_url(), out).await?,
        Command::Scopes(args) => scopes::run(args, &store_url(), out).await?,
        Command::Claims(args) => claims::run(args, &store_url(), out).await?,
        Command::Release(args) => release::run(args, &store_url(), out).await?,
        Command::Doctor(args) => return doctor::run(args, &store_url(), out).await,
        Command::Unblock(args) => unblock::run(args, &store_url(), out).await?,
        Command::Reset(args) => reset::run(args, &store_url(), out).await?,
        Command::Defer(args) => defer::run(args, &store_url(), out).await?,
        Command::Prioritize(args) => prioritize::run(args, &store_url(), out).await?,
        Command::Reroute(args) => reroute::run(args, &store_url(), out).await?,
        Command::Close(args) => close::run(args, &store_url(), out).await?,
        Command::Export(args) => export::run(args, &store_url(), out).await?,
        Command::Import(args) => import::run(args, &store_url(), out).await?,
        Command::Migrate(args) => return migrate::run(args, &store_url(), out).await,
        Command::Completions { shell } => completions::run(shell, out)?,
        Command::Stress(passed) => bench::run("stress", &passed, args.store.as_deref())?,
        Command::Bench(passed) => bench::run("bench", &passed, args.store.as_deref())?,
    }
    Ok(ExitStatus::Success)
}
