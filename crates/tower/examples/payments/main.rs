//! Payments that are made once, although clients retry them and servers are killed in the middle of
//! them.
//!
//! Run it with `cargo run -p tidelock-tower --example payments`, optionally with the URL of a
//! store. It starts three servers on one store, has eight clients pay through them, disconnect and
//! retry, kills a server with SIGKILL every few payments, and finally counts the payments per key:
//! there is one.

mod client;
mod ledger;
mod server;
mod team;

use std::error::Error;
use std::process::Command;
use std::sync::Arc;

use tidelock::Tidelock;

use client::Client;
use ledger::Ledger;
use team::Team;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const SERVERS: usize = 3;
const CLIENTS: usize = 8;

#[allow(dead_code)] // the tests have their own entry point
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = tempfile::tempdir()?;
    let url = match &arguments[..] {
        [serve, url] if serve == "serve" => return server::run(url),
        [url] => url.clone(),
        _ => format!("sqlite:{}", folder.path().join("payments.db").display()),
    };
    let summary = hammer(&url, start_again, 10)?;
    println!("{summary}");
    Ok(())
}

/// This program again, as a server.
fn start_again(url: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", url]);
    Ok(command)
}

/// Pays until so many servers were killed and so many connections broken by that, and returns a
/// summary.
pub(crate) fn hammer(
    url: &str,
    start: fn(&str) -> Result<Command>,
    kills: usize,
) -> Result<String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let team = Arc::new(Team::start(url, start, SERVERS)?);
        let ledger = Arc::new(Ledger::default());
        let clients =
            (0..CLIENTS).map(|nth| tokio::spawn(Client::new(nth, &team, &ledger).pay_until_told()));
        let clients: Vec<_> = clients.collect();
        let mut killed = 0;
        // A kill counts if it broke a connection.
        while killed < kills || ledger.broken_off() < kills {
            ledger.until_paid_more(2 * CLIENTS).await;
            tokio::task::block_in_place(|| team.kill_one())?;
            killed += 1;
        }
        ledger.close();
        for client in clients {
            client.await??;
        }
        ledger.audit(&Tidelock::open(url).await?, killed).await
    })
}

/// Runs a server process.
#[allow(dead_code)] // only the tests use it
pub(crate) fn serve(url: &str) -> Result<()> {
    server::run(url)
}
