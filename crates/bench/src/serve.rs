//! The throughput of the HTTP API: appends over HTTP by many connections, beside the same appends
//! in this process, on the same store.
//!
//! Clients and server share this process and its threads, and talk over loopback; so the load
//! generator's work counts against the server. The sides alternate, slice by slice, so that noise
//! of the machine affects all of them: quote the ratio. Also measured: whether stalled followers
//! slow writers down, and the memory of a separate server process over minutes.

mod appender;
mod client;
mod memory;
mod server_process;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidelock::Tidelock;
use tidelock::store::Store;
use tidelock_http::{Api, Tokens};
use tokio::net::TcpListener;
use tokio::task::block_in_place;

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{Baseline, Callers, Comparison, Figures, SLICES, measure};
use crate::progress::Progress;
use crate::target::Target;
use appender::Appender;
use client::{Client, StalledFollowers};

pub(crate) use server_process::serve_in_process;

/// Number of stalled followers.
const STALLED: usize = 8;

/// Measures everything and prints it.
pub(crate) async fn measure_all(args: &ServeArgs) -> Result<(), Failure> {
    let target = block_in_place(|| Target::parse(&args.url))?;
    let mut progress = Progress::new(2, u64::from(SLICES));
    progress.note(&format!("measuring {target}"));
    let fixture = Fixture::filled(&target, async |_| Ok(())).await?;
    let server = serve(&fixture.store).await?;

    progress.begin(&format!("append@{}", args.connections));
    let (over_http, in_process) = beside_the_store(args, server, &fixture.store, &progress).await?;
    tell(args, &progress, "append", "in_process", &over_http, &in_process)?;

    progress.begin(&format!("append-with-{STALLED}-deaf-followers@{}", args.connections));
    let (with, without) = beside_the_deaf(args, server, &progress).await?;
    tell(args, &progress, "append-with-deaf-followers", "without", &with, &without)?;

    if args.minutes > 0 {
        memory::watch(args, &target.url(), &progress).await?;
    }
    fixture.clear().await
}

async fn beside_the_store(
    args: &ServeArgs,
    server: SocketAddr,
    store: &Arc<dyn Store>,
    progress: &Progress,
) -> Result<(Figures, Figures), Failure> {
    let ours = clients(server, args.connections).await?;
    let appenders =
        (0..args.connections).map(|nth| Appender::new(store, nth)).collect::<Result<_, _>>()?;
    one(ours, "in process", Box::new(Callers(appenders)), args.seconds, progress).await
}

async fn beside_the_deaf(
    args: &ServeArgs,
    server: SocketAddr,
    progress: &Progress,
) -> Result<(Figures, Figures), Failure> {
    let ours = clients(server, args.connections).await?;
    let stalled = StalledFollowers::around(ours, server, STALLED);
    let contest_without = Box::new(clients(server, args.connections).await?);
    one(stalled, "without", contest_without, args.seconds, progress).await
}

async fn one(
    ours: impl crate::measure::Side + 'static,
    name: &'static str,
    side: Box<dyn crate::measure::Side>,
    time: Duration,
    progress: &Progress,
) -> Result<(Figures, Figures), Failure> {
    let comparison = Comparison::of(ours).against(vec![Baseline { name, side }]);
    let mut measured = measure(comparison, time, progress).await?;
    let (_, other) = measured.baseline.pop().expect("there is one other side");
    Ok((measured.ours, other))
}

async fn serve(store: &Arc<dyn Store>) -> Result<SocketAddr, Failure> {
    let tokens = Tokens::read(&format!("writer bench {}", client::TOKEN))
        .map_err(|e| Failure::Answer(e.to_string()))?;
    let api = Api::over(&Tidelock::over(store.clone())).tokens(tokens);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(
        async move { tidelock_http::serve(listener, api, None, std::future::pending()).await },
    );
    Ok(address)
}

async fn clients(server: SocketAddr, connections: usize) -> Result<Callers<Client>, Failure> {
    let mut clients = Vec::new();
    for nth in 0..connections {
        clients.push(Client::connect(server, nth).await?);
    }
    Ok(Callers(clients))
}

fn tell(
    args: &ServeArgs,
    progress: &Progress,
    name: &str,
    other: &str,
    ours: &Figures,
    theirs: &Figures,
) -> Result<(), Failure> {
    let line = line(args.json, &format!("{name}@{}", args.connections), other, ours, theirs);
    progress.print(|| {
        println!("{line}");
        Ok(())
    })?;
    Ok(())
}

fn line(as_json: bool, name: &str, other: &str, ours: &Figures, theirs: &Figures) -> String {
    let ratio = ours.ops_per_s / theirs.ops_per_s;
    if as_json {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        return json!({
            "workload": name, "ops_per_s": ours.ops_per_s, "p50_us": micros(ours.p50), "p99_us": micros(ours.p99),
            "beside": other, "other_ops_per_s": theirs.ops_per_s, "ratio": ratio,
        })
        .to_string();
    }
    format!(
        "{name:<32} {:>8.0} requests/s  p50 {:>9.2?}  p99 {:>9.2?}   {other} {:>8.0}/s  p50 {:>9.2?}   ratio {ratio:.2}",
        ours.ops_per_s, ours.p50, ours.p99, theirs.ops_per_s, theirs.p50,
    )
}
