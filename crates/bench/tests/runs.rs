//! `tidelock-bench runs`, run as people and programs run it.

use std::process::Command;

use serde_json::Value;
use tidelock_test_postgres::Server;

fn lines(urls: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-bench"));
    command.arg("runs").args(urls);
    command.args(["--json", "--seconds", "0.1", "--rounds", "1"]);
    command.args(["--recorded", "10,100", "--sleeping", "700"]);
    let output = command.output().expect("the binary was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {line}"))
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
    let lines = lines(&["memory:", "sqlite:"]);
    let (memory, sqlite) = lines.split_at(lines.len() / 2);
    check(memory);
    check(sqlite);
}

#[test]
fn a_named_server_is_measured_and_left_as_it_was_found() {
    let server = Server::start().expect("a server");
    let schemas = || {
        server.run_sql("postgres", "SELECT nspname FROM pg_namespace ORDER BY 1").expect("schemas")
    };
    let before = schemas();
    check(&lines(&[&server.url()]));
    assert_eq!(schemas(), before);
}
