//! The memory of a server under load, minute by minute.

use std::time::Duration;

use serde_json::json;

use super::clients;
use super::server_process::ServerProcess;
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::measure::Side;
use crate::progress::Progress;

const MINUTE: Duration = Duration::from_secs(60);

/// Lets clients work for the given time, and prints the server's memory after each minute.
pub(super) async fn watch(args: &ServeArgs, url: &str, progress: &Progress) -> Result<(), Failure> {
    let server = ServerProcess::start(url)?;
    let mut clients = clients(server.address, args.connections).await?;
    for minute in 0..=args.minutes {
        let requests = match minute {
            0 => 0,
            _ => clients.run_slice(MINUTE).await?.ops,
        };
        let kib = server.resident()?;
        let line = match args.json {
            true => {
                json!({ "minute": minute, "requests": requests, "resident_kib": kib }).to_string()
            }
            false => format!(
                "minute {minute:>3}  {requests:>9} requests  {:>8.1} MiB",
                kib as f64 / 1024.0
            ),
        };
        progress.print(|| {
            println!("{line}");
            Ok(())
        })?;
    }
    Ok(())
}
