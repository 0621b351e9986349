//! A faulty network: a TCP proxy that injects faults on request.
//!
//! The faults are those after which a client cannot know the outcome of its request. A fault is in
//! effect when its method returns. Bytes are forwarded as they come; the proxy does not know
//! PostgreSQL's protocol, except for a byte pattern that a test can choose.
//!
//! [`network`] is the state that all connections share, [`link`] is one connection.

mod link;
mod network;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::failure::Failure;
use crate::proxy::network::{Condition, Network};

/// A proxy to a server, with fault injection.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: Arc<Network>,
    /// `None` only while it is being dropped.
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy on a free loopback port that forwards to this port.
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

    /// Drops the server's replies, while requests still pass, until [healed](Self::heal). Healing
    /// cuts the connections that missed a reply.
    pub fn swallow_replies(&self) {
        self.network.change(Condition::Swallowing);
    }

    /// Closes new connections at once and cuts open ones, until [healed](Self::heal).
    pub fn refuse(&self) {
        self.network.change(Condition::Refusing);
        self.cut();
    }

    /// Forwards nothing in either direction, not even the end of a connection, until
    /// [healed](Self::heal).
    pub fn stall(&self) {
        self.network.change(Condition::Stalled);
    }

    /// Ends every fault, also a pending one.
    pub fn heal(&self) {
        self.network.change(Condition::Healthy);
        self.network.cut(|line| line.lost_reply);
    }

    /// Once, when a client sends a chunk with these bytes: forwards the chunk, then cuts the client
    /// off before any reply. The server can finish.
    pub fn cut_after_request(&self, pattern: &[u8]) {
        self.network.cut_after_request(pattern);
    }

    /// Forwards new connections to another port, as after a failover.
    pub fn aim(&self, port: u16) {
        self.network.aim(port);
    }

    /// The number of connected clients.
    pub fn connections(&self) -> usize {
        self.network.connections()
    }

    fn open(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let network = Arc::new(Network::to(target));
        let acceptor = thread::spawn({
            let network = Arc::clone(&network);
            move || admit(&listener, &network)
        });
        Ok(Self { port, network, acceptor: Some(acceptor) })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.change(Condition::Closed);
        // One more connection wakes the accepting thread, which sees that the proxy is closed.
        let _visitor = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ended = self.acceptor.take().map(JoinHandle::join);
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
