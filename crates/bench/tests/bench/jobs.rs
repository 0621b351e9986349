//! `tidelock-bench jobs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidelock_test_postgres::Server;

use crate::{bench, lines, number, schemas, stderr};

/// A program with the protocol of the peers, which enqueues ten jobs a second, and does whatever it
/// was filled with at once, in the first of its processes.
const PEER: &str = r#"#!/bin/sh
folder=${0%/*}/$1
read -r place
echo ready
while read -r order jobs _; do
    case $order in
        enqueue) echo '{"begun":0,"ended":1000000,"ops":10,"times":[1000]}' ;;
        fill) rm -rf "$folder" && mkdir "$folder" && echo "$jobs" >"$folder/jobs" && echo filled ;;
        work)
            done=0
            mkdir "$folder/taken" 2>/dev/null && done=$(cat "$folder/jobs")
            echo working
            ;;
        *) echo "{\"done\":$done,\"first\":0,\"last\":$(date +%s%6N)}" ;;
    esac
done
"#;

/// The lines of a short run: four ways to enqueue, one process and four, and what a job costs.
fn short(url: &str, more: &[&str]) -> Vec<Value> {
    let brief = ["--seconds", "0.1", "--jobs", "100", "--rounds", "1"];
    let lines = lines(&[&["jobs", url][..], &brief, more].concat());
    let workloads: Vec<&Value> = lines.iter().map(|line| &line["workload"]).collect();
    let all = [&["enqueue"; 4][..], &["drain"; 2], &["calls"; 4]].concat();
    assert_eq!(workloads, all, "{lines:?}");
    lines
}

fn check_ratio(line: &Value) {
    let ratio = number(line, "jobs_per_s") / number(line, "baseline_events_per_s");
    assert!((number(line, "ratio") - ratio).abs() < 0.01 * ratio.max(1.0), "{line}");
}

/// Without a limit, a job is one commit that enqueues it and one that ends it. With one, the
/// commits for its permits come on top: how many depends on how long it takes.
fn check_calls(calls: &[Value]) {
    let [together, done, limited, alone] = calls else { panic!("{calls:?}") };
    assert_eq!(number(together, "commits"), 0.01, "all in a commit: {together}");
    assert_eq!(number(alone, "commits") + number(done, "commits"), 2.0, "{alone}, {done}");
    assert!(number(limited, "commits") > 1.0, "the permits were created: {limited}");
}

#[test]
fn jobs_are_enqueued_and_worked_off_beside_commits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lines = short(&format!("sqlite:{}", folder.path().join("bench.db").display()), &[]);
    for line in &lines[..6] {
        check_ratio(line);
        assert_eq!(line["peers"], serde_json::json!({}), "none was named: {line}");
    }
    for line in &lines[4..6] {
        let shares = line["shares"].as_object().expect("shares of the speed without limits");
        assert_eq!(shares.len(), 2, "{line}");
    }
    check_calls(&lines[6..]);
    assert_eq!(fs::read_dir(folder.path()).expect("still there").count(), 0, "files are removed");
}

#[test]
fn peers_take_turns_on_the_server_and_leave_it_as_they_found_it() {
    let (folder, server) = (tempfile::tempdir().expect("a folder"), Server::start().expect("one"));
    let (peer, before) = (stub(folder.path()), schemas(&server));
    let lines = short(&server.url(), &["--peer", peer.to_str().expect("UTF-8")]);
    for line in &lines[..6] {
        let peers = line["peers"].as_object().expect("rates of peers");
        assert!(peers.keys().eq(["graphile_worker", "river"]), "{line}");
    }
    let ahead = number(&lines[1], "jobs_per_s") / 10.0;
    assert!((number(&lines[1], "ahead") - ahead).abs() < 0.1 * ahead, "{}", lines[1]);
    assert_eq!(number(&lines[1], "at_least"), 5.0, "the target of 32 callers: {}", lines[1]);
    assert!(lines[0]["at_least"].is_null(), "one caller has none: {}", lines[0]);
    assert_eq!(schemas(&server), before);
}

fn stub(folder: &Path) -> PathBuf {
    let peer = folder.join("peer");
    fs::write(&peer, PEER).expect("a program");
    fs::set_permissions(&peer, fs::Permissions::from_mode(0o700)).expect("executable");
    peer
}

#[test]
fn a_store_of_one_process_is_refused() {
    let output = bench(&["jobs", "memory:"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("try: sqlite: or postgres:"), "{}", stderr(&output));
}
