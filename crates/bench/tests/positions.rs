//! `tidelock-bench positions`, run as people and programs run it.

use std::process::{Command, Output};

use serde_json::Value;
use tidelock_test_postgres::Server;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidelock-bench"))
        .arg("positions")
        .args(args)
        .output()
        .expect("the binary was built with this test")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ways to give out positions.
const MECHANISMS: usize = 5;

/// The lines of a short run, in which it is checked that nothing was skipped.
fn lines(args: &[&str]) -> Vec<Value> {
    let output = bench(&[&["--json", "--seconds", "0.2", "--aged", "20"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn without_a_url_a_server_is_started_and_every_mechanism_has_its_line() {
    let scenarios = ["4x16-shared", "1x16-scanned", "1x1-hot-aged", "1x16-held"];
    let lines = lines(&scenarios.map(|scenario| ["--only", scenario]).concat());
    assert_eq!(lines.len(), scenarios.len() * MECHANISMS);
    for line in lines {
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(12), "{line}");
        assert!(line["commits_per_s"].as_f64() > Some(0.0), "{line}");
        assert!(line["mechanism"] == "sequence" || line["skipped"] == 0, "{line}");
        assert_eq!(line["scanned_per_s"].is_null(), line["scenario"] != "1x16-scanned", "{line}");
    }
}

#[test]
fn a_named_server_is_left_as_it_was_found() {
    let server = Server::start().expect("a server");
    let schemas =
        || server.run_sql("postgres", "SELECT nspname FROM pg_namespace ORDER BY 1").expect("schemas");
    let before = schemas();
    assert_eq!(lines(&[&server.url(), "--only", "1x1"]).len(), MECHANISMS);
    assert_eq!(schemas(), before);

    server.run_sql("postgres", "CREATE SCHEMA bench_positions_xid").expect("somebody else's schema");
    let before = schemas();
    let output = bench(&[&server.url(), "--only", "1x1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\"bench_positions_xid\" already exists"), "{}", stderr(&output));
    assert_eq!(schemas(), before);
}

#[test]
fn a_scenario_that_is_not_there_is_refused_with_those_that_are() {
    let output = bench(&["--only", "3x3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no scenario 3x3"), "{}", stderr(&output));
    assert!(stderr(&output).contains("try: one of 1x1, "), "{}", stderr(&output));
}
