//! `tidelock-bench store`.

use std::path::Path;

use serde_json::Value;
use tidelock_test_postgres::Server;

use crate::{bench, lines, number, schemas, stderr};

/// One workload of each kind that is quick to fill.
const QUICK: [&str; 6] = [
    "commit-1@1",
    "commit-10@32",
    "lease-10-idle-1k",
    "set-if-absent",
    "set-if-absent-hot",
    "add-hot",
];

/// The lines of a short run over some workloads.
fn short(url: &str, only: &[&str]) -> Vec<Value> {
    let only: Vec<_> = only.iter().flat_map(|workload| ["--only", workload]).collect();
    let lines = lines(&[&["store", url, "--seconds", "0.1"][..], &only].concat());
    assert_eq!(2 * lines.len(), only.len(), "{lines:?}");
    lines
}

/// The figure, the baseline, and their ratio.
fn check_figures(line: &Value) {
    let (ops, baseline) = (number(line, "ops_per_s"), number(line, "baseline_ops_per_s"));
    assert!(ops > 0.0 && baseline > 0.0, "{line}");
    assert!((number(line, "ratio") - ops / baseline).abs() < 0.01, "{line}");
    assert!(number(line, "p50_ms") <= number(line, "p99_ms"), "{line}");
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("the folder is there").next().is_none()
}

#[test]
fn every_line_has_what_was_measured_and_the_bare_limit_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for line in short(&format!("sqlite:{}", folder.path().join("bench.db").display()), &QUICK) {
        check_figures(&line);
        assert_eq!(line["checks"].is_null(), line["workload"] != "lease-10-idle-1k", "{line}");
    }
    assert!(is_empty(folder.path()), "the files are removed");
}

#[test]
fn a_store_in_memory_has_no_bare_limit() {
    for line in short("memory:", &QUICK) {
        assert!(number(&line, "ops_per_s") > 0.0, "{line}");
        assert!(line["baseline_ops_per_s"].is_null() && line["ratio"].is_null(), "{line}");
    }
}

#[test]
fn a_named_server_is_measured_and_left_as_it_was_found() {
    let server = Server::start().expect("a server");
    let before = schemas(&server);
    for line in short(&server.url(), &QUICK) {
        check_figures(&line);
    }
    assert_eq!(schemas(&server), before);

    server.run_sql("postgres", "CREATE SCHEMA tidelock_bench_baseline").expect("a foreign schema");
    let before = schemas(&server);
    let output = bench(&["store", &server.url(), "--only", "add-hot"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("\"tidelock_bench_baseline\" already exists"),
        "{}",
        stderr(&output)
    );
    assert_eq!(schemas(&server), before);
}

#[test]
fn without_a_named_server_one_is_started_and_processes_are_compared_with_one() {
    let lines = short("postgres:", &["processes-4x16", "mixed@32"]);
    check_figures(&lines[0]);
    let names = |of: &str, field: &str| -> Vec<_> {
        lines[0][of].as_array().expect(of).iter().map(|one| one[field].clone()).collect()
    };
    assert_eq!(names("baseline", "by"), ["driver", "pgbench"]);
    assert_eq!(names("checks", "what"), ["the speed of one process", "the p99 of the baseline"]);
    assert!(lines[1]["ratio"].is_null(), "no plain statement does it: {}", lines[1]);
}

#[test]
fn a_file_that_is_there_is_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("shop.db");
    std::fs::write(&path, "foreign data").expect("a file");
    let output = bench(&["store", &format!("sqlite:{}", path.display())]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("shop.db exists already"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "foreign data");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    for (args, said) in [
        (["redis:", "--seconds", "1"], "try: memory:, sqlite:, sqlite:PATH, postgres: or "),
        (["memory:", "--only", "commit-2"], "try: one of commit-1@1, "),
        (["memory:", "--seconds", "0"], "must be a number of seconds"),
        (["sqlite:?cache=shared", "--only", "add-hot"], "unknown option \"cache\""),
        (
            ["postgres://joe@localhost?schema=shop", "--only", "add-hot"],
            "only writes into its own schemas",
        ),
    ] {
        let output = bench(&[&["store"][..], &args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}
