//! The `tidelock-bench` binary, run as people and programs run it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidelock-bench"))
        .arg("store")
        .args(args)
        .output()
        .expect("the binary was built with this test")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of a short run over one workload of each kind that takes no time to fill.
fn lines(url: &str) -> Vec<Value> {
    let only =
        ["commit-1@1", "commit-10@32", "lease-10-idle-1k", "set-if-absent", "set-if-absent-hot", "add-hot"];
    let mut args = vec![url, "--json", "--seconds", "0.1"];
    args.extend(only.iter().flat_map(|workload| ["--only", workload]));
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), only.len(), "{text}");
    lines
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {line}"))
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("the folder is there").next().is_none()
}

#[test]
fn every_line_has_what_was_measured_and_the_bare_limit_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for line in lines(&format!("sqlite:{}", folder.path().join("bench.db").display())) {
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(7), "{line}");
        let (ops, bare) = (number(&line, "ops_per_s"), number(&line, "bare_ops_per_s"));
        assert!(ops > 0.0 && bare > 0.0, "{line}");
        assert!((number(&line, "ratio") - ops / bare).abs() < 0.01, "{line}");
        assert!(number(&line, "p50_ms") <= number(&line, "p99_ms"), "{line}");
    }
    assert!(is_empty(folder.path()), "the files are removed");
}

#[test]
fn a_store_in_memory_has_no_bare_limit() {
    for line in lines("memory:") {
        assert!(number(&line, "ops_per_s") > 0.0, "{line}");
        assert!(line["bare_ops_per_s"].is_null() && line["ratio"].is_null(), "{line}");
    }
}

#[test]
fn a_file_that_is_there_is_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("shop.db");
    std::fs::write(&path, "somebody's data").expect("a file");
    let output = bench(&[&format!("sqlite:{}", path.display())]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("shop.db is there already"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "somebody's data");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    for (args, said) in [
        (["redis:", "--seconds", "1"], "try: memory:, sqlite: or sqlite:PATH"),
        (["memory:", "--only", "commit-2"], "try: one of commit-1@1, "),
        (["memory:", "--seconds", "0"], "must be a number of seconds"),
        (["sqlite:?cache=shared", "--only", "add-hot"], "unknown option \"cache\""),
    ] {
        let output = bench(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}
