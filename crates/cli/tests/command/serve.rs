//! `tidelock serve`, as a process: it starts, answers, and ends when it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tidelock::prelude::*;

use crate::ground::{PATIENCE, Said, Shop, bare, said};

const TOKEN: &str = "writer-token-0123456789";

/// A server that is ended with this.
pub(crate) struct Serving {
    process: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What it said when it began.
    said: String,
}

impl Serving {
    pub(crate) fn start(shop: &Shop, args: &[&str]) -> Self {
        let mut process = shop.spawn(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let mut said = String::new();
        BufReader::new(process.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.rsplit("://").next().expect("it says where it is");
        let address = address.split([',', '\n']).next().unwrap().parse().unwrap();
        Self { process, address, said }
    }

    /// What a server says that does not begin to serve.
    fn refused(shop: &Shop, args: &[&str]) -> Said {
        let mut process = shop.spawn(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let (mut said, mut rest) = (String::new(), String::new());
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        errors.read_line(&mut said).unwrap();
        if said.starts_with("serving") {
            process.kill().unwrap();
        }
        errors.read_to_string(&mut rest).unwrap();
        let code = process.wait().unwrap().code().unwrap_or(-1);
        Said { code, out: String::new(), err: said + &rest }
    }

    /// Status and body of the answer to a request.
    fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token =
            token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let (host, length) = (self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{token}content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    /// Ends it like this, and gives its exit code.
    fn end(mut self, signal: Signal) -> i32 {
        self.signal(signal);
        self.process.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// HTTP-7. HTTP-15.
fn what_is_appended_over_http_is_in_the_store_after_the_server_has_ended(shop: &Shop) {
    let tokens = shop.path("tokens");
    std::fs::write(&tokens, format!("# ours\nwriter walt {TOKEN}\n")).unwrap();
    let serving = Serving::start(shop, &["--migrate", "--tokens", &tokens]);
    let body = r#"{"events":[{"type":"placed","data":{"units":2}}]}"#;
    let (status, appended) = serving.ask("POST", "/v1/streams/order-7/events", Some(TOKEN), body);
    assert_eq!((status, &appended["version"]), (201, &1.into()), "{appended}");
    assert_eq!(serving.ask("GET", "/v1/streams", None, "").0, 401);
    let (status, exam) = serving.ask("GET", "/v1/doctor", Some(TOKEN), "");
    assert_eq!((status, &exam["healthy"]), (200, &true.into()), "{exam}");
    assert_eq!(serving.ask("GET", "/metrics", Some(TOKEN), "").0, 200);
    assert_eq!(serving.end(Signal::SIGTERM), 0);
    let events = shop.with(|store| async move {
        store.read_whole_stream(&StreamName::new("order-7").unwrap()).await.unwrap()
    });
    assert_eq!(events.len(), 1);
}

/// HTTP-6.
fn without_tokens_it_is_read_only_and_says_so(shop: &Shop) {
    let serving = Serving::start(shop, &["--migrate"]);
    assert!(serving.said.contains("read-only"), "{}", serving.said);
    assert_eq!(serving.ask("GET", "/v1/streams", None, "").0, 200);
    let (status, problem) = serving.ask("POST", "/v1/streams/a/events", None, "{}");
    assert_eq!((status, &problem["code"]), (403, &"role-too-low".into()));
    assert_eq!(serving.end(Signal::SIGINT), 0);
}

/// CMD-1.
#[test]
fn a_store_is_made_only_if_that_is_asked_for_and_none_for_an_address_that_is_taken() {
    let shop = Shop::sqlite();
    let is_there = || std::path::Path::new(&shop.path("shop.db")).exists();
    let unasked = Serving::refused(&shop, &[]);
    assert_eq!((unasked.code, is_there()), (3, false), "{unasked:?}");
    assert!(
        unasked.err.contains("there is no store at") && unasked.err.contains("--migrate"),
        "{unasked:?}"
    );
    let others = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = others.local_addr().unwrap().to_string();
    let refused = shop.run(&["serve", "--migrate", "--listen", &taken]);
    assert_eq!((refused.code, refused.err.contains("cannot listen on")), (1, true), "{refused:?}");
    assert!(!is_there());
    for args in [&["--migrate"][..], &["--migrate"], &[]] {
        let was_there = is_there();
        let serving = Serving::start(&shop, args);
        assert_eq!(serving.said.contains("a new and empty store"), !was_there, "{}", serving.said);
        assert_eq!(serving.end(Signal::SIGINT), 0);
    }
}

/// CMD-1. Tables of another version, and a database of another program, stay as they are.
fn a_store_that_is_not_up_to_date_is_not_served_unless_that_is_asked_for(shop: &Shop) {
    let other = shop.another();
    if other.url.starts_with("sqlite:") {
        // An SQLite database without tables.
        std::fs::write(other.path("other.db"), "").unwrap();
    }
    let refused = Serving::refused(&other, &[]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("--migrate") && !refused.err.contains("migrate=0"), "{refused:?}");
    assert_eq!(other.run(&["migrate", "--check"]).code, 1, "nothing was made");
    assert_eq!(Serving::start(&other, &["--migrate"]).end(Signal::SIGINT), 0);
    assert_eq!(other.run(&["migrate", "--check"]).code, 0);
    assert_eq!(Serving::start(&other, &[]).end(Signal::SIGINT), 0);
}

/// What is kept in memory is the server's own, and needs nothing to be made.
#[test]
fn a_store_in_memory_is_served_as_it_is() {
    let shop = Shop::on("memory:".to_owned());
    assert_eq!(Serving::start(&shop, &[]).end(Signal::SIGINT), 0);
}

/// Somebody who does not send what was announced is waited for, a while; who asks a second time
/// does not wait for anybody.
#[test]
fn a_second_interrupt_ends_it_at_once() {
    let shop = Shop::sqlite();
    let tokens = shop.path("tokens");
    std::fs::write(&tokens, format!("writer walt {TOKEN}\n")).unwrap();
    let serving = Serving::start(&shop, &["--migrate", "--tokens", &tokens]);
    let head = format!(
        "POST /v1/streams/a/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
        serving.address
    );
    let mut slow = TcpStream::connect(serving.address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 12];
    slow.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100", "it waits for the body");

    serving.signal(Signal::SIGINT);
    // From when nobody else is let in, it only waits; if not for long, then it has ended, and
    // nobody is let in either.
    while TcpStream::connect(serving.address).is_ok() {}
    assert_eq!(serving.end(Signal::SIGINT), 130);
}

/// What goes wrong while it serves is on standard error, from the level on that was asked for.
fn what_happens_while_it_serves_is_logged(shop: &Shop) {
    let mut serving = Serving::start(shop, &["--migrate", "--log", "debug"]);
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"this is not HTTP\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    // Other things may be said before it: a store that has other work at this level says so, too.
    let mut lines =
        BufReader::new(serving.process.stderr.as_mut().unwrap()).lines().map_while(Result::ok);
    let broke_off = " DEBUG tidelock_http::serve: a connection broke off error=";
    assert!(lines.any(|line| line.contains(broke_off)), "it is not said before the server ends");
    assert_eq!(serving.end(Signal::SIGTERM), 0);
}

/// HTTP-4. HTTP-6. Before anything is opened, and without a word of a token.
#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (store, short) = (
        folder.path().join("s.db").display().to_string(),
        folder.path().join("tokens").display().to_string(),
    );
    std::fs::write(&short, "reader rita canary").unwrap();
    let store_url = format!("sqlite:{store}");
    for (args, says) in [
        (vec!["--listen", "0.0.0.0:0"], "there are no tokens"),
        (vec!["--tokens", &short], "has 6 characters"),
        (vec!["--tokens", "/nowhere"], "cannot read"),
        (vec!["--tls-cert", &short, "--tls-key", &short], "cannot read a certificate"),
        (vec!["--tls-cert", &short], "--tls-key"),
    ] {
        let command = bare(&[&["serve", "--store", &store_url][..], &args].concat());
        let said = said(command);
        assert!(matches!(said.code, 1 | 2) && said.err.contains(says), "{args:?}: {said:?}");
        assert!(!said.err.contains("canary"), "{said:?}");
    }
    assert!(!std::path::Path::new(&store).exists(), "nothing was made");
}

on_files_and_postgres!(
    what_is_appended_over_http_is_in_the_store_after_the_server_has_ended,
    without_tokens_it_is_read_only_and_says_so,
    a_store_that_is_not_up_to_date_is_not_served_unless_that_is_asked_for,
    what_happens_while_it_serves_is_logged,
);
