//! The commands, one file each: typed arguments in, lines out.

mod adjusted;
mod confirm;
mod interrupt;

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
use crate::ending::ExitStatus;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

/// Carries out what was asked for.
pub(crate) async fn run(args: Args, layer: Layer, out: &mut Output) -> Result<ExitStatus, Failure> {
    let place = || StoreUrl::meant(args.store.clone()).behind(layer);
    match args.command {
        Command::Demo(demo) => demo::run(demo, args.store, out).await?,
        Command::Serve(args) => serve::run(args, &place(), out).await?,
        Command::Streams(args) => streams::run(args, &place(), out).await?,
        Command::Events(args) => events::run(args, &place(), out).await?,
        Command::Leases(args) => leases::run(args, &place(), out).await?,
        Command::Reactions(args) => reactions::run(args, &place(), out).await?,
        Command::Runs(args) => runs::run(args, &place(), out).await?,
        Command::Signal(args) => signal::run(args, &place(), out).await?,
        Command::Cancel(args) => cancel::run(args, &place(), out).await?,
        Command::Retry(args) => retry::run(args, &place(), out).await?,
        Command::Resume(args) => resume::run(args, &place(), out).await?,
        Command::Resolve(args) => resolve::run(args, &place(), out).await?,
        Command::Scopes(args) => scopes::run(args, &place(), out).await?,
        Command::Claims(args) => claims::run(args, &place(), out).await?,
        Command::Release(args) => release::run(args, &place(), out).await?,
        Command::Doctor(args) => return doctor::run(args, &place(), out).await,
        Command::Unblock(args) => unblock::run(args, &place(), out).await?,
        Command::Reset(args) => reset::run(args, &place(), out).await?,
        Command::Defer(args) => defer::run(args, &place(), out).await?,
        Command::Prioritize(args) => prioritize::run(args, &place(), out).await?,
        Command::Reroute(args) => reroute::run(args, &place(), out).await?,
        Command::Close(args) => close::run(args, &place(), out).await?,
        Command::Export(args) => export::run(args, &place(), out).await?,
        Command::Import(args) => import::run(args, &place(), out).await?,
        Command::Migrate(args) => return migrate::run(args, &place(), out).await,
        Command::Completions { shell } => completions::run(shell, out)?,
        Command::Stress(passed) => bench::run("stress", &passed, args.store.as_deref())?,
        Command::Bench(passed) => bench::run("bench", &passed, args.store.as_deref())?,
    }
    Ok(ExitStatus::Success)
}
