//! Each fault does exactly what it says.
//!
//! The test is both the client and the server, so it knows what was received. Every wait has a
//! deadline, so that an excessive fault fails a test instead of stopping the suite.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tidelock_test_postgres::Proxy;

const PATIENCE: Duration = Duration::from_secs(60);

/// The time to observe silence. Too short a time could hide a fault, but never invent one.
const A_MOMENT: Duration = Duration::from_millis(100);

/// More than all buffers between two sockets hold, so that it is written only if the peer reads.
const FLOOD: usize = 64 << 20;

#[test]
fn a_healthy_network_passes_everything_and_the_end() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    line.request(b"question");
    line.reply(b"answer");
    assert_eq!(proxy.connections(), 1);

    drop(line.server);
    assert_eq!(line.client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_client_that_hangs_up_is_still_answered() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    line.client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(line.server.read(&mut [0]).unwrap(), 0);
    line.reply(b"answer");
}

#[test]
fn a_cut_resets_both_sides_and_spares_later_connections() {
    let (proxy, server) = network();
    let mut lines = [Line::through(&proxy, &server), Line::through(&proxy, &server)];
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    for line in &mut lines {
        assert_reset(&mut line.client);
        assert_reset(&mut line.server);
    }
    Line::through(&proxy, &server).request(b"question");
}

#[test]
fn a_cut_reaches_a_connection_that_is_stuck_in_a_write() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    fill(&mut line.server);
    proxy.cut();
    assert_reset(&mut line.server);
}

#[test]
fn swallowed_replies_never_arrive_and_their_connections_are_cut_when_healed() {
    let (proxy, server) = network();
    let (mut robbed, mut idle) = (Line::through(&proxy, &server), Line::through(&proxy, &server));
    proxy.swallow_replies();
    robbed.request(b"question");
    robbed.server.write_all(&vec![0; FLOOD]).unwrap();
    assert_silent(&mut robbed.client);

    proxy.heal();
    assert_reset(&mut robbed.client);
    idle.request(b"question");
    idle.reply(b"answer");
}

#[test]
fn a_server_that_hangs_up_while_replies_are_swallowed_is_not_heard_to() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    proxy.swallow_replies();
    drop(line.server);
    assert_silent(&mut line.client);
    proxy.heal();
    assert_over(&mut line.client);
}

#[test]
fn a_stalled_network_passes_nothing_and_loses_nothing() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    proxy.stall();
    line.client.write_all(b"question").unwrap();
    line.server.write_all(b"answer").unwrap();
    assert_silent(&mut line.client);
    assert_silent(&mut line.server);

    proxy.heal();
    assert_hears(&mut line.client, b"answer");
    assert_hears(&mut line.server, b"question");
}

#[test]
fn a_network_that_refuses_accepts_no_connection_until_healed() {
    let (proxy, server) = network();
    let mut before = Line::through(&proxy, &server);
    proxy.refuse();
    assert_reset(&mut before.client);
    let mut during = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    during.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(during.read(&mut [0]).unwrap(), 0);

    proxy.heal();
    Line::through(&proxy, &server).request(b"question");
}

#[test]
fn a_server_that_is_not_there_is_a_connection_that_ends() {
    let (proxy, server) = network();
    drop(server);
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_connection_is_cut_after_its_request_once_and_the_server_may_finish() {
    let (proxy, server) = network();
    let (mut other, mut line) = (Line::through(&proxy, &server), Line::through(&proxy, &server));
    proxy.cut_after_request(b"COMMIT");
    line.request(b"INSERT");
    line.reply(b"INSERTED");
    line.request(b"and COMMIT it");
    assert_eq!(line.client.read(&mut [0]).unwrap(), 0);
    line.server.write_all(&vec![0; FLOOD]).unwrap();
    assert_eq!(line.server.read(&mut [0]).unwrap(), 0);
    assert_eq!(proxy.connections(), 1);

    other.request(b"COMMIT");
    other.reply(b"COMMITTED");
}

#[test]
fn healing_forgets_a_cut_that_has_not_happened() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    proxy.cut_after_request(b"COMMIT");
    proxy.heal();
    line.request(b"COMMIT");
    line.reply(b"COMMITTED");
}

#[test]
fn new_connections_go_where_the_proxy_is_aimed() {
    let (proxy, server) = network();
    let mut old = Line::through(&proxy, &server);
    let (standby, port) = listen();
    proxy.aim(port);
    Line::through(&proxy, &standby).request(b"question");
    old.request(b"question");
}

#[test]
fn a_dropped_proxy_resets_what_is_open_and_listens_no_more() {
    let (proxy, server) = network();
    let mut line = Line::through(&proxy, &server);
    let port = proxy.port();
    drop(proxy);
    assert_reset(&mut line.client);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

/// Both ends of one connection through a proxy.
struct Line {
    client: TcpStream,
    server: TcpStream,
}

impl Line {
    fn through(proxy: &Proxy, server: &TcpListener) -> Self {
        let client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens");
        let mut line = Self { client, server: accept(server) };
        line.be_patient();
        // A fault applies only to a registered connection, and a byte passes only then.
        line.request(b"hello");
        line
    }

    fn be_patient(&self) {
        for end in [&self.client, &self.server] {
            end.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
            end.set_write_timeout(Some(PATIENCE)).expect("it is not zero");
        }
    }

    fn request(&mut self, request: &[u8]) {
        self.client.write_all(request).expect("the client is connected");
        assert_hears(&mut self.server, request);
    }

    fn reply(&mut self, reply: &[u8]) {
        self.server.write_all(reply).expect("the server is connected");
        assert_hears(&mut self.client, reply);
    }
}

/// A proxy, and its server.
fn network() -> (Proxy, TcpListener) {
    let (server, port) = listen();
    (Proxy::to(port).expect("some port is free"), server)
}

fn listen() -> (TcpListener, u16) {
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("some port is free");
    server.set_nonblocking(true).expect("it is a socket");
    let port = server.local_addr().expect("it is bound").port();
    (server, port)
}

/// A listener has no deadline of its own.
fn accept(server: &TcpListener) -> TcpStream {
    let begun = Instant::now();
    loop {
        match server.accept() {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                thread::yield_now();
            }
            Err(error) => panic!("the proxy does not connect: {error}"),
        }
    }
}

/// Writes until the buffers are full.
fn fill(end: &mut TcpStream) {
    end.set_write_timeout(Some(A_MOMENT)).expect("it is not zero");
    while end.write(&[0; 1 << 16]).is_ok() {}
}

fn assert_hears(end: &mut TcpStream, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    end.read_exact(&mut heard).expect("the words arrive");
    assert_eq!(heard, words);
}

fn assert_silent(end: &mut TcpStream) {
    end.set_read_timeout(Some(A_MOMENT)).expect("it is not zero");
    let error = end.read(&mut [0]).expect_err("nothing to read, and no end");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    end.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
}

fn assert_reset(end: &mut TcpStream) {
    let error = end.read(&mut [0]).expect_err("not an orderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Cleanly or not: if the network is healed at the moment of the end, it may still forward it.
fn assert_over(end: &mut TcpStream) {
    let read = end.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{read:?}");
}
