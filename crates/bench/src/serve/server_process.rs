//! A separate server process, so that its memory can be measured without that of its clients.

use std::fs;
use std::net::SocketAddr;

use tokio::task::block_in_place;

use super::serve;
use crate::child::{Child, be_told, say_ready};
use crate::failure::Failure;
use crate::report::write_line;

/// A server over the store with this URL, until it is dropped.
pub(super) struct ServerProcess {
    child: Child,
    pub(super) address: SocketAddr,
}

impl ServerProcess {
    pub(super) fn start(url: &str) -> Result<Self, Failure> {
        block_in_place(|| {
            let mut child = Child::start(&["server".to_owned()], url)?;
            let address = child.hear()?;
            let address = address
                .parse()
                .map_err(|_| Failure::Answer(format!("{address:?} is no address")))?;
            Ok(Self { child, address })
        })
    }

    /// Its resident memory, in KiB.
    pub(super) fn resident(&self) -> Result<u64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        resident(&status).ok_or_else(|| {
            Failure::Answer("this machine does not tell what a process has of memory".to_owned())
        })
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Runs the process: it reads the URL, prints its address, and serves until the end of its input.
pub(crate) async fn serve_in_process() -> Result<(), Failure> {
    let url = block_in_place(be_told)?.unwrap_or_default();
    let store = tidelock::open(&url).await?;
    let address = serve(&store).await?;
    say_ready()?;
    write_line(&address.to_string())?;
    while block_in_place(be_told)?.is_some() {}
    Ok(store.close().await?)
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
