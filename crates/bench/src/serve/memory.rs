//! What a server needs of memory while it works, minute by minute.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::client::Client;
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::measure::{Callers, Side};
use crate::progress::Progress;

const MINUTE: Duration = Duration::from_secs(60);

/// Has clients work for as long as is asked for, and tells after each minute what the process has of memory.
pub(super) async fn watch(
    args: &ServeArgs,
    mut clients: Callers<Client>,
    progress: &Progress,
) -> Result<(), Failure> {
    for minute in 0..=args.minutes {
        let requests = match minute {
            0 => 0,
            _ => clients.lap(MINUTE).await?.ops,
        };
        let kib = resident_kib().ok_or_else(|| {
            Failure::Answer("this machine does not tell what a process has of memory".to_owned())
        })?;
        let line = match args.json {
            true => json!({ "minute": minute, "requests": requests, "resident_kib": kib }).to_string(),
            false => format!("minute {minute:>3}  {requests:>9} requests  {:>8.1} MiB", kib as f64 / 1024.0),
        };
        progress.print(|| {
            println!("{line}");
            Ok(())
        })?;
    }
    Ok(())
}

fn resident_kib() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_read_from_where_linux_tells_it() {
        assert_eq!(resident("VmSize:\t  9 kB\nVmRSS:\t  1234 kB\n"), Some(1234));
        assert_eq!(resident(""), None);
    }
}
