//! The server processes, which are killed and replaced.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;

use super::Result;
use super::server::LISTENING;

pub(crate) struct Team {
    url: String,
    start: fn(&str) -> Result<Command>,
    servers: Mutex<Vec<Server>>,
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Team {
    /// Starts so many servers on this store.
    pub(crate) fn start(
        url: &str,
        start: fn(&str) -> Result<Command>,
        servers: usize,
    ) -> Result<Self> {
        let servers =
            (0..servers).map(|_| Server::start(start(url)?)).collect::<Result<Vec<_>>>()?;
        Ok(Self { url: url.to_owned(), start, servers: Mutex::new(servers) })
    }

    /// The address of a random server.
    pub(crate) fn any(&self) -> SocketAddr {
        let servers = self.servers.lock();
        servers[fastrand::usize(..servers.len())].address
    }

    /// Kills a server in the middle of its work, and starts another in its place.
    pub(crate) fn kill_one(&self) -> Result<()> {
        let nth = fastrand::usize(..self.servers.lock().len());
        self.servers.lock()[nth].kill();
        let next = Server::start((self.start)(&self.url)?)?;
        self.servers.lock()[nth] = next;
        Ok(())
    }
}

impl Server {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().ok_or("a server has no output")?;
        for line in BufReader::new(said).lines() {
            if let Some((_, address)) = line?.split_once(LISTENING) {
                return Ok(Self { child, address: address.trim().parse()? });
            }
        }
        Err("a server ended before it listened".into())
    }

    /// With SIGKILL, which cannot be handled.
    fn kill(&mut self) {
        let _gone_already = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
