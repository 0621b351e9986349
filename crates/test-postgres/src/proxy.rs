//! A bad network: TCP passed on to a server, and injured when told to.
//!
//! The injuries are those after which a client cannot know what became of its request. An order
//! holds when its method returns: what was to be cut has been cut. Bytes are passed as they come;
//! nothing here knows PostgreSQL's protocol, but for a few bytes that a test wants to be the last
//! to pass.
//!
//! [`network`] is what all connections share, [`link`] is one connection.

mod link;
mod network;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::failure::Failure;
use crate::proxy::network::{Condition, Network};

/// A way to a server through a network that can be injured.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: Arc<Network>,
    /// `None` only while it is being dropped.
    doorman: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy on a free port of the loopback, which passes everything on to this one.
    pub fn to(port: u16) -> Result<Self, Failure> {
        Self::open(port).map_err(Failure::to("open a proxy"))
    }

    /// The port on 127.0.0.1 to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Resets every connection that is open now.
    pub fn cut(&self) {
        self.network.cut(|_| true);
    }

    /// From now on throws away what the server sends, while requests still pass, until
    /// [healed](Self::heal). Healing cuts the connections that missed something.
    pub fn swallow_replies(&self) {
        self.network.change(Condition::Swallowing);
    }

    /// Closes new connections at once and cuts those that are there, until [healed](Self::heal).
    pub fn refuse(&self) {
        self.network.change(Condition::Refusing);
        self.cut();
    }

    /// Passes nothing in either direction, not even the end of a connection, until
    /// [healed](Self::heal).
    pub fn stall(&self) {
        self.network.change(Condition::Stalled);
    }

    /// Ends every injury, also one that has yet to happen.
    pub fn heal(&self) {
        self.network.change(Condition::Healthy);
        self.network.cut(|line| line.robbed);
    }

    /// Once, when a client sends a chunk with these bytes in it: passes the chunk on, then cuts the
    /// client off before anything comes back. The server gets to finish.
    pub fn cut_after_request(&self, pattern: &[u8]) {
        self.network.cut_after_request(pattern);
    }

    /// Sends new connections to another port, as after a failover.
    pub fn aim(&self, port: u16) {
        self.network.aim(port);
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.network.connections()
    }

    fn open(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let network = Arc::new(Network::to(target));
        let doorman = thread::spawn({
            let network = Arc::clone(&network);
            move || admit(&listener, &network)
        });
        Ok(Self { port, network, doorman: Some(doorman) })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.change(Condition::Closed);
        // One more visitor, for the doorman to see that it is closed.
        let _visitor = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ended = self.doorman.take().map(JoinHandle::join);
        self.cut();
    }
}

fn admit(listener: &TcpListener, network: &Arc<Network>) {
    for client in listener.incoming() {
        match (network.condition(), client) {
            (Condition::Closed, _) => return,
            (Condition::Refusing, _) | (_, Err(_)) => {}
            (_, Ok(client)) => {
                let network = Arc::clone(network);
                thread::spawn(move || link::run(client, &network));
            }
        }
    }
}
