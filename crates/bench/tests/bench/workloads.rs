//! The workloads of the patterns, short, each beside its baseline; and a short soak test.

use serde_json::Value;

use crate::lines;

/// The lines of a short run, each with a figure and its ratio to the baseline.
fn compared(args: &[&str]) -> Vec<Value> {
    let lines = lines(&[args, &["--seconds", "0.1"]].concat());
    for line in &lines {
        let (ops, ratio) = (line["ops_per_s"].as_f64(), line["ratio"].as_f64());
        assert!(ops > Some(0.0) && ratio > Some(0.0), "{line}");
    }
    lines
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["workload"].as_str()).collect()
}

#[test]
fn claims_are_measured_beside_what_the_store_does() {
    for url in ["memory:", "sqlite:"] {
        assert_eq!(compared(&["claims", url]).len(), 6);
    }
}

#[test]
fn decisions_and_loads_are_measured_beside_what_the_store_does() {
    let only = ["execute", "execute-hot", "cold-load-100", "cold-load-100-snap"];
    let only: Vec<_> = only.into_iter().flat_map(|workload| ["--only", workload]).collect();
    for url in ["memory:", "sqlite:"] {
        let lines = compared(&[&["events", url][..], &only].concat());
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[..3].iter().all(|line| line["checks"].is_array()), "{lines:?}");
    }
}

/// The bench itself fails if an acknowledged mutation is lost.
#[test]
fn mutations_are_measured_beside_a_lock_and_beside_separate_keys() {
    for url in ["memory:", "sqlite:"] {
        let lines = compared(&["scopes", url]);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines.iter().all(|line| line["checks"].is_array()), "{lines:?}");
    }
}

#[test]
fn requests_with_keys_are_measured_beside_requests_without() {
    for url in ["memory:", "sqlite:"] {
        let lines = compared(&["http", url]);
        assert_eq!(names(&lines), ["first@1", "first@32", "replay@1", "replay@32"]);
    }
}

#[test]
fn appends_over_http_are_measured_beside_appends_in_process() {
    let lines = compared(&["serve", "sqlite:", "--connections", "4"]);
    assert_eq!(names(&lines), ["append@4", "append-with-deaf-followers@4"]);
}

/// Schedule 106. KEEP-1, KEEP-2, KEEP-3 and KEEP-4: the binary fails if more than a few rows are
/// left.
#[test]
fn nothing_is_left_of_what_is_past_its_retention() {
    let lines = lines(&["soak", "sqlite:", "postgres:", "--count", "400", "--callers", "16"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let rows = line["fullest"]["rows"].as_u64();
        assert!(rows > Some(200), "there was something to delete: {line}");
    }
}
