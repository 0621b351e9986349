//! The command on a PostgreSQL server that was restarted: positions continue far above the old
//! ones.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tidelock_test_postgres::{Server, Stop};

use crate::harness::{PATIENCE, Shop, append, mail, told};

/// Schedule 104; CMD-5, LOG-11. A clean restart, then one commit.
#[test]
fn reads_at_the_end_of_the_feed_work_after_a_restart_of_the_server() {
    let server = Server::start().unwrap();
    let shop = Shop::on(server.url());
    shop.ok(&["migrate"]);
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north")]).await;
        mail(&store, 1).await;
    });
    server.restart(Stop::Fast).unwrap();
    shop.with(|store| async move { append(&*store, "other", "placed", &[json!("late")]).await });

    shop.ok(&["doctor"]);
    assert_eq!(shop.json(&["reactions", "--routes"]).len(), 2);
    follow_from_now(&shop);
}

/// Shows events appended from now on, and none from before.
fn follow_from_now(shop: &Shop) {
    let mut follower = shop.spawn(&["events", "--follow", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let (tell, told_first) = mpsc::channel();
    let reader = thread::spawn(move || tell.send(lines.next().transpose()));
    let begun = Instant::now();
    // Events that are appended before the follower has found the end are not shown, so more are
    // appended until one is.
    let first = loop {
        shop.with(|store| async move { append(&*store, "other", "placed", &[json!("new")]).await });
        match told_first.recv_timeout(Duration::from_millis(20)) {
            Ok(first) => break first.unwrap(),
            Err(_) => assert!(begun.elapsed() < PATIENCE, "nothing is shown"),
        }
    };
    if first.is_some() {
        kill(Pid::from_raw(follower.id() as i32), Signal::SIGINT).unwrap();
    }
    drop(reader.join());
    let ended = told(&follower.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(first.is_some_and(|line| line.contains("\"new\"")));
}

/// CMD-4. Following waits for an unavailable server, and continues where it was: each event once,
/// in order.
#[test]
fn following_continues_after_a_restart_of_the_server() {
    let server = Server::start().unwrap();
    let shop = Shop::on(server.url());
    shop.ok(&["migrate"]);
    // So that each follower shows something, and has opened the store, before the server stops.
    shop.with(|store| async move { append(&*store, "a", "noted", &[json!(0)]).await });
    for from in [&["--after=0"][..], &["a", "--from=1"]] {
        let mut follower = shop.spawn(&[&["events", "--follow", "--json"], from].concat());
        let out = listen("stdout", follower.stdout.take().unwrap());
        let err = listen("stderr", follower.stderr.take().unwrap());
        let before = shop.json(&["events", "--all"]).len();
        let mut seen = next(&out, before);
        for how in [Stop::Fast, Stop::Immediate] {
            server.stop(how).unwrap();
            until_said(&err, "waiting for the store");
            server.start_again().unwrap();
            let nth = json!(seen.len());
            shop.with(|store| async move { append(&*store, "a", "noted", &[nth]).await });
            seen.extend(next(&out, 1));
            let waiting = until_said(&err, "continuing");
            assert!(!waiting.iter().any(|line| line.contains("waiting for the store")), "one line");
        }
        kill(Pid::from_raw(follower.id() as i32), Signal::SIGINT).unwrap();
        assert_eq!(follower.wait().unwrap().code(), Some(0));
        assert_eq!(out.iter().count(), 0, "nothing is shown twice");
        for (nth, line) in seen.iter().enumerate() {
            assert!(line.contains(&format!("\"payload\":{nth}")), "{nth}: {line}");
        }
    }
}

/// The lines of an output, until it is closed. A test that fails shows them.
fn listen(name: &'static str, from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || {
        let shown = |line: &String| eprintln!("{name}: {line}");
        let lines = BufReader::new(from).lines().map_while(Result::ok).inspect(shown);
        lines.for_each(|line| drop(tell.send(line)));
    });
    lines
}

/// Waits for a line with this text, and returns those before it. A follower has several
/// connections, and each of them may notice that the server was away.
fn until_said(lines: &mpsc::Receiver<String>, text: &str) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        let line = next(lines, 1).remove(0);
        if line.contains(text) {
            return before;
        }
        before.push(line);
    }
}

/// The next lines.
fn next(lines: &mpsc::Receiver<String>, count: usize) -> Vec<String> {
    (0..count).map(|_| lines.recv_timeout(PATIENCE).expect("there is another line")).collect()
}
