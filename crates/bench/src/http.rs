//! The cost of the HTTP edge: requests to a handler behind the layer, beside the same requests to
//! the same handler without it.
//!
//! Client and server share this process and talk over loopback. Both sides alternate, slice by
//! slice, so that noise of the machine affects both: quote the ratio, and the difference of the
//! medians.

mod client;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use serde_json::json;
use tidelock::Tidelock;
use tidelock::store::Store;
use tidelock_tower::IdempotencyLayer;
use tokio::net::TcpListener;
use tokio::task::block_in_place;

use crate::args::HttpArgs;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{Baseline, Callers, Comparison, Figures, SLICES, measure};
use crate::progress::Progress;
use crate::target::Target;
use client::{Client, Keys};

/// Concurrent clients.
const CALLERS: [usize; 2] = [1, 32];

/// The same handler, with the layer and without.
const KEYED: &str = "/keyed";
const BASELINE: &str = "/baseline";

/// Measures everything and prints it.
pub(crate) async fn measure_all(args: &HttpArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let mut progress = Progress::new(2 * CALLERS.len(), u64::from(SLICES));
    progress.note(&format!("measuring {target}"));
    for keys in [Keys::Fresh, Keys::Known] {
        for callers in CALLERS {
            let name = format!("{}@{callers}", keys.name());
            progress.begin(&name);
            let fixture = Fixture::filled(&target, async |_| Ok(())).await?;
            let (with, without) =
                one(&fixture.store, keys, callers, args.seconds, &progress).await?;
            fixture.clear().await?;
            progress.print(|| {
                println!("{}", line(args.json, &name, &with, &without));
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// The figures with the layer, and without.
async fn one(
    store: &Arc<dyn Store>,
    keys: Keys,
    callers: usize,
    time: Duration,
    progress: &Progress,
) -> Result<(Figures, Figures), Failure> {
    let server = serve(store).await?;
    let with = clients(server, KEYED, keys, callers).await?;
    let side = Box::new(clients(server, BASELINE, keys, callers).await?);
    let comparison = Comparison::of(with).against(vec![Baseline { name: "without", side }]);
    let mut measured = measure(comparison, time, progress).await?;
    let (_, without) = measured.baseline.pop().expect("there is one other side");
    Ok((measured.ours, without))
}

async fn serve(store: &Arc<dyn Store>) -> Result<SocketAddr, Failure> {
    let layer = IdempotencyLayer::new(&Tidelock::over(store.clone())).required();
    let handler = async |order: String| (http::StatusCode::CREATED, order);
    let app = Router::new().route(KEYED, post(handler).layer(layer)).route(BASELINE, post(handler));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn clients(
    server: SocketAddr,
    path: &'static str,
    keys: Keys,
    callers: usize,
) -> Result<Callers<Client>, Failure> {
    let mut clients = Vec::new();
    for nth in 0..callers {
        clients.push(Client::connect(server, path, keys, nth).await?);
    }
    Ok(Callers(clients))
}

fn line(as_json: bool, name: &str, with: &Figures, without: &Figures) -> String {
    let ratio = with.ops_per_s / without.ops_per_s;
    let added = with.p50.saturating_sub(without.p50);
    if as_json {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        return json!({
            "workload": name, "ops_per_s": with.ops_per_s, "p50_us": micros(with.p50), "p99_us": micros(with.p99),
            "without_ops_per_s": without.ops_per_s, "without_p50_us": micros(without.p50),
            "added_p50_us": micros(added), "ratio": ratio,
        })
        .to_string();
    }
    format!(
        "{name:<12} {:>8.0} requests/s  p50 {:>9.2?}  p99 {:>9.2?}   without {:>8.0} requests/s  p50 {:>9.2?}   added {added:>9.2?}  ratio {ratio:.2}",
        with.ops_per_s, with.p50, with.p99, without.ops_per_s, without.p50,
    )
}
