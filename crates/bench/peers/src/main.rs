//! Peers: job queues of others on PostgreSQL, driven by `tidelock-bench jobs --peer`.
//!
//! `tidelock-bench-peers PEER SLOTS` reads `{"url": .., "schema": ..}`, makes its tables in that
//! schema, says `ready`, and then answers each line with one line: `enqueue CALLERS BATCH MICROS`,
//! `fill JOBS`, `work`, `count` and `stop`. Each peer is set up as its own benchmark does it, with
//! as many jobs at once as Tidelock is given.

mod counted;
mod graphile;
mod protocol;
mod river;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use crate::graphile::Graphile;
use crate::protocol::serve;
use crate::river::River;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Threads, as in `tidelock-bench`.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [peer, slots] = &args[..] else {
        return Err("usage: tidelock-bench-peers river|graphile_worker SLOTS".into());
    };
    let slots: usize = slots.parse()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match peer.as_str() {
            "river" => serve(async |place| River::open(&place, slots).await).await,
            "graphile_worker" => serve(async |place| Graphile::open(&place, slots).await).await,
            other => Err(format!("there is no peer {other:?}").into()),
        }
    })
}
