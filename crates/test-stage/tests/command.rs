//! The command `tidelock-test-past`, as `./test` calls it.

use std::process::Command;

#[test]
fn without_a_command_it_says_how_it_is_called() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidelock-test-past")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: tidelock-test-past "));
}
