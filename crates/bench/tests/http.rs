//! `tidelock-bench http` and `tidelock-bench serve`, run as people and programs run it.

use std::process::Command;

use serde_json::Value;

fn lines(args: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-bench"));
    let output = command.args(args).args(["--json", "--seconds", "0.1"]).output();
    let output = output.expect("the binary was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn requests_with_keys_are_measured_beside_requests_without() {
    for url in ["memory:", "sqlite:"] {
        let lines = lines(&["http", url]);
        let names: Vec<_> = lines.iter().filter_map(|line| line["workload"].as_str()).collect();
        assert_eq!(names, ["first@1", "first@32", "replay@1", "replay@32"]);
        for line in &lines {
            assert!(
                line["ops_per_s"].as_f64() > Some(0.0) && line["ratio"].as_f64() > Some(0.0),
                "{line}"
            );
        }
    }
}

#[test]
fn appends_over_http_are_measured_beside_appends_in_process() {
    let lines = lines(&["serve", "sqlite:", "--connections", "4"]);
    let names: Vec<_> = lines.iter().filter_map(|line| line["workload"].as_str()).collect();
    assert_eq!(names, ["append@4", "append-with-deaf-followers@4"]);
    for line in &lines {
        assert!(
            line["ops_per_s"].as_f64() > Some(0.0) && line["ratio"].as_f64() > Some(0.0),
            "{line}"
        );
    }
}
