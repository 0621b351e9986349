//! Throughput and latency of reactions, beside the rate at which one process commits their events.
//!
//! Events are committed by 32 callers, and then drained: routed, leased, handled by an empty
//! handler, and acked. Both alternate, on a new store each time, so that noise of the machine
//! affects both: quote the ratio.

mod drain;
mod latency;

use std::sync::Arc;

use serde_json::json;
use tidelock::Tidelock;
use tidelock::store::Store;
use tokio::task::block_in_place;

use crate::args::ReactionsArgs;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::target::Target;
use drain::Drained;
use latency::Latency;

/// Measures everything and prints it.
pub(crate) async fn measure_all(args: &ReactionsArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    println!("{}", heading(args, &target));
    for route in [drain::Route::Own, drain::Route::Computed] {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            rounds.push(
                on_a_site(&target, async |store| drain::measure(store, args, route).await).await?,
            );
        }
        say_drained(args, route, rounds);
    }
    for via in [latency::Via::OneProcess, latency::Via::AnotherHandle] {
        let latency =
            on_a_site(&target, async |store| latency::measure(store, &target, args, via).await)
                .await?;
        say_latency(args, via, &latency);
    }
    Ok(())
}

async fn on_a_site<T>(
    target: &Target,
    measure: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let measured = measure(fixture.store.clone()).await?;
    fixture.clear().await?;
    Ok(measured)
}

fn heading(args: &ReactionsArgs, target: &Target) -> String {
    match args.json {
        true => {
            json!({ "target": target.to_string(), "events": args.size.events, "targets": args.size.targets })
                .to_string()
        }
        false => {
            format!("measuring {target}: {} events over {} targets", args.size.events, args.size.targets)
        }
    }
}

/// Prints the median round, by the ratio.
fn say_drained(args: &ReactionsArgs, route: drain::Route, mut rounds: Vec<Drained>) {
    rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    let Some(middle) = rounds.get(rounds.len() / 2) else { return };
    let (name, commits, drained, ratio) =
        (route.name(), middle.commits, middle.drained, middle.ratio());
    match args.json {
        true => println!(
            "{}",
            json!({ "workload": name, "commits": commits, "drained": drained, "ratio": ratio })
        ),
        false => println!(
            "{name:<24} {commits:>10.0} commits/s {drained:>10.0} drained/s  ratio {ratio:.2}"
        ),
    }
}

fn say_latency(args: &ReactionsArgs, via: latency::Via, latency: &Latency) {
    let (name, p50, p99) = (via.name(), latency.at(0.5), latency.at(0.99));
    match args.json {
        true => {
            let (p50, p99) = (p50.as_secs_f64(), p99.as_secs_f64());
            println!("{}", json!({ "workload": name, "p50": p50, "p99": p99 }));
        }
        false => println!("{name:<24} p50 {p50:>10.2?}  p99 {p99:>10.2?}"),
    }
}

/// A handle on a store.
fn over(store: &Arc<dyn Store>) -> Tidelock {
    Tidelock::over(store.clone())
}
