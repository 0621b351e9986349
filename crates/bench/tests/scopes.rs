//! `tidelock-bench scopes`, run as people and programs run it.

use std::process::Command;

use serde_json::Value;

fn lines(url: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-bench"));
    command.args(["scopes", url, "--json", "--seconds", "0.1"]);
    let output = command.output().expect("the binary was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The bench itself fails if an acknowledged mutation is lost.
#[test]
fn mutations_are_measured_beside_a_lock_and_beside_keys_of_ones_own() {
    for url in ["memory:", "sqlite:"] {
        let lines = lines(url);
        assert_eq!(lines.len(), 5, "{lines:?}");
        for line in &lines {
            assert!(
                line["ops_per_s"].as_f64() > Some(0.0) && line["ratio"].as_f64() > Some(0.0),
                "{line}"
            );
            assert!(line["checks"].is_array(), "{line}");
        }
    }
}
