//! A short soak test: finished work past its retention is removed from the store.

use std::process::Command;

use serde_json::Value;

/// Schedule 106. KEEP-1, KEEP-2, KEEP-3 and KEEP-4: the binary fails if more than a few rows are
/// left.
#[test]
fn nothing_is_left_of_what_is_past_its_retention() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-bench"));
    command.args(["soak", "sqlite:", "postgres:", "--json", "--count", "400", "--callers", "16"]);
    let output = command.output().expect("the binary was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for line in lines {
        assert!(
            line["fullest"]["rows"].as_u64() > Some(200),
            "there was something to delete: {line}"
        );
    }
}
