//! One connection: two sockets, and a thread for each direction between them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};

use crate::proxy::network::{LineId, Network, Verdict};

/// How often a blocked writer checks whether the connection was cut.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const CHUNK: usize = 64 * 1024;

/// The direction of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    FromClient,
    FromServer,
}

/// The two sockets of a connection.
#[derive(Debug)]
pub(super) struct Wires {
    client: TcpStream,
    server: TcpStream,
}

/// Runs one connection to its end. If the server is unreachable, the client is disconnected.
pub(super) fn run(client: TcpStream, network: &Network) {
    let Ok(wires) = Wires::connect(client, network.target()).map(Arc::new) else { return };
    let Some(id) = network.enter(&wires) else { return };
    thread::scope(|threads| {
        threads.spawn(|| wires.carry(Direction::FromClient, id, network));
        wires.carry(Direction::FromServer, id, network);
    });
    network.leave(id, wires);
}

impl Wires {
    fn connect(client: TcpStream, port: u16) -> io::Result<Self> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        for wire in [&client, &server] {
            wire.set_nodelay(true)?;
            wire.set_write_timeout(Some(POLL_INTERVAL))?;
        }
        Ok(Self { client, server })
    }

    /// Shuts down reading on both sides, which sends nothing to either peer, so that closing the
    /// sockets sends a reset. A socket may be closed already.
    pub(super) fn reset(&self) {
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        for wire in [&self.client, &self.server] {
            let _ordered = setsockopt(wire, sockopt::Linger, &at_once);
            let _ended = wire.shutdown(Shutdown::Read);
        }
    }

    /// Forwards one direction to its end, and then ends the other if it cannot continue.
    fn carry(&self, direction: Direction, id: LineId, network: &Network) {
        // A peer that disappeared is gone all the same.
        let _carried = self.carry_chunks(direction, id, network);
        if network.is_cut(id) {
            return;
        }
        match direction {
            // The server answers what it has received, and then disconnects.
            Direction::FromClient => drop(self.server.shutdown(Shutdown::Write)),
            // No server is left for the client.
            Direction::FromServer => drop(self.client.shutdown(Shutdown::Both)),
        }
    }

    fn carry_chunks(&self, direction: Direction, id: LineId, network: &Network) -> io::Result<()> {
        let (mut from, to) = self.ends(direction);
        let mut buffer = vec![0; CHUNK];
        loop {
            // A broken connection counts as ended.
            let length = from.read(&mut buffer).unwrap_or(0);
            let chunk = &buffer[..length];
            match network.judge(id, direction, chunk) {
                Verdict::Pass => write(to, chunk, || network.is_cut(id))?,
                Verdict::Discard => {}
                Verdict::PassAsTheLast => {
                    write(to, chunk, || network.is_cut(id))?;
                    return self.client.shutdown(Shutdown::Both);
                }
                Verdict::Stop => return Ok(()),
            }
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::FromClient => (&self.client, &self.server),
            Direction::FromServer => (&self.server, &self.client),
        }
    }
}

/// Writes everything, however long the other side takes to read it, unless the connection is cut.
fn write(mut to: &TcpStream, mut chunk: &[u8], given_up: impl Fn() -> bool) -> io::Result<()> {
    while !chunk.is_empty() && !given_up() {
        match to.write(chunk) {
            Ok(written) => chunk = &chunk[written..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
