//! `tidelock serve`, as a process: it starts, answers, and ends on a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tidelock::store::{StoreExt, StreamName};

use crate::harness::{PATIENCE, Said, Shop, bare, said};

const TOKEN: &str = "writer-token-0123456789";

/// A server that ends with this value.
pub(crate) struct Serving {
    process: Child,
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Its first line.
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

    /// The output of a server that refuses to start.
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

    /// The status and body of a response.
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

    /// Ends it with this signal, and returns its exit code.
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
fn events_appended_over_http_are_durable(shop: &Shop) {
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
fn a_store_is_created_only_with_migrate_and_a_free_address() {
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

/// CMD-1. Tables of another version, and another program's database, stay as they are.
fn an_outdated_store_is_served_only_with_migrate(shop: &Shop) {
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

/// A memory store belongs to the server, and needs no creation.
#[test]
fn a_memory_store_is_served() {
    let shop = Shop::on("memory:".to_owned());
    assert_eq!(Serving::start(&shop, &[]).end(Signal::SIGINT), 0);
}

/// A client that does not send its announced body is waited for; a second interrupt does not wait.
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
    // Once no new connection is accepted, the server only waits, or has ended already.
    while TcpStream::connect(serving.address).is_ok() {}
    assert_eq!(serving.end(Signal::SIGINT), 130);
}

/// Errors while serving are logged on standard error, from the requested level on.
fn errors_while_serving_are_logged(shop: &Shop) {
    let mut serving = Serving::start(shop, &["--migrate", "--log", "debug"]);
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"this is not HTTP\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    // Other lines may precede it: a store may log at this level, too.
    let mut lines =
        BufReader::new(serving.process.stderr.as_mut().unwrap()).lines().map_while(Result::ok);
    let broke_off = " DEBUG tidelock_http::serve: a connection broke off error=";
    assert!(lines.any(|line| line.contains(broke_off)), "it is logged before the server ends");
    assert_eq!(serving.end(Signal::SIGTERM), 0);
}

/// HTTP-4. HTTP-6. Before anything is opened, and without quoting a token.
#[test]
fn invalid_server_options_are_refused_at_the_start() {
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
    events_appended_over_http_are_durable,
    without_tokens_it_is_read_only_and_says_so,
    an_outdated_store_is_served_only_with_migrate,
    errors_while_serving_are_logged,
);
