//! `tidelock-bench runs`.

use serde_json::Value;
use tidelock_test_postgres::Server;

use crate::{lines, number, schemas};

/// The lines of a short run.
fn short(urls: &[&str]) -> Vec<Value> {
    let brief = ["--seconds", "0.1", "--rounds", "1", "--recorded", "10,100", "--sleeping", "700"];
    lines(&[&["runs"][..], urls, &brief].concat())
}

/// The lines of one store: its name, runs at two numbers of callers, two resumes, and an idle
/// worker twice.
fn check(lines: &[Value]) {
    let [_, flows @ .., ten, hundred, none, all] = lines else { panic!("too few: {lines:?}") };
    assert_eq!(flows.len(), 2, "{lines:?}");
    for flow in flows {
        let ratio = number(flow, "runs_per_s") / number(flow, "baseline_runs_per_s");
        assert!((number(flow, "ratio") - ratio).abs() < 0.01 * ratio.max(1.0), "{flow}");
        assert!(
            (6.5..8.5).contains(&number(flow, "commits")),
            "start, five steps and the end: {flow}"
        );
    }
    for (resumed, steps) in [(ten, 10), (hundred, 100)] {
        assert_eq!(resumed["steps"], steps, "{resumed}");
        assert!(number(resumed, "ms") > 0.0 && number(resumed, "reading_ms") > 0.0, "{resumed}");
    }
    for (idle, runs) in [(none, 0), (all, 700)] {
        assert_eq!(idle["runs"], runs, "{idle}");
        assert!(number(idle, "calls_per_s") >= 0.0, "{idle}");
    }
}

#[test]
fn runs_are_measured_beside_their_commits_and_their_histories() {
    let lines = short(&["memory:", "sqlite:"]);
    let (memory, sqlite) = lines.split_at(lines.len() / 2);
    check(memory);
    check(sqlite);
}

#[test]
fn a_named_server_is_measured_and_left_as_it_was_found() {
    let server = Server::start().expect("a server");
    let before = schemas(&server);
    check(&short(&[&server.url()]));
    assert_eq!(schemas(&server), before);
}
