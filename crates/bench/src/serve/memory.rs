//! What a server needs of memory while it works, minute by minute.

use std::time::Duration;

use serde_json::json;

use super::apart::ServerApart;
use super::clients;
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::measure::Side;
use crate::progress::Progress;

const MINUTE: Duration = Duration::from_secs(60);

/// Has clients work for as long as is asked for, and tells after each minute what the server has of
/// memory.
pub(super) async fn watch(args: &ServeArgs, url: &str, progress: &Progress) -> Result<(), Failure> {
    let server = ServerApart::start(url)?;
    let mut clients = clients(server.address, args.connections).await?;
    for minute in 0..=args.minutes {
        let requests = match minute {
            0 => 0,
            _ => clients.lap(MINUTE).await?.ops,
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
