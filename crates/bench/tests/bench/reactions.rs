//! `tidelock-bench reactions`.

use serde_json::Value;
use tidelock_test_postgres::Server;

use crate::{bench, lines, number, schemas, stderr};

/// The lines of a short run.
fn short(url: &str) -> Vec<Value> {
    lines(&["reactions", url, "--rounds", "1", "--events", "40", "--targets", "5"])
}

/// The target, two drains with their commits, and two latencies.
fn check(lines: &[Value]) {
    let [heading, drains @ .., one, another] = lines else { panic!("too few lines: {lines:?}") };
    assert_eq!((&heading["events"], &heading["targets"]), (&40.into(), &5.into()), "{heading}");
    assert_eq!(drains.len(), 2, "{lines:?}");
    for drain in drains {
        let (commits, drained) = (number(drain, "commits"), number(drain, "drained"));
        assert!(commits > 0.0 && drained > 0.0, "{drain}");
        assert!((number(drain, "ratio") - drained / commits).abs() < 0.01, "{drain}");
    }
    for latency in [one, another] {
        assert!(number(latency, "p50") <= number(latency, "p99"), "{latency}");
    }
    let names: Vec<&Value> = lines.iter().skip(1).map(|line| &line["workload"]).collect();
    let all = [
        "drain, own streams",
        "drain, computed targets",
        "latency, one process",
        "latency, another handle",
    ];
    assert_eq!(names, all);
}

#[test]
fn every_drain_has_its_commits_beside_it_and_every_latency_its_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    check(&short("memory:"));
    check(&short(&format!("sqlite:{}", folder.path().join("bench.db").display())));
    let left = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "the files are removed");
}

#[test]
fn a_named_server_is_measured_and_left_as_it_was_found() {
    let server = Server::start().expect("a server");
    let before = schemas(&server);
    check(&short(&server.url()));
    assert_eq!(schemas(&server), before);
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    let output = bench(&["reactions", "redis:"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("try: memory:, sqlite:, sqlite:PATH, postgres: or "),
        "{}",
        stderr(&output)
    );
}
