//! The payments example, with real servers that are really killed.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[path = "../examples/payments/main.rs"]
mod payments;

use std::process::Command;

use tidelock_test_stage::TestStore;

/// Set in a server process.
const URL: &str = "TIDELOCK_PAYMENTS_URL";

/// The server process, if started as one.
#[test]
fn child() {
    if let Ok(url) = std::env::var(URL) {
        payments::serve(&url).unwrap();
    }
}

fn start(url: &str) -> payments::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "child", "--nocapture"]).env(URL, url);
    Ok(command)
}

/// Schedule 58. CLAIM-54.
#[test]
fn every_key_is_paid_once_although_servers_are_killed_on_one_file() {
    println!("{}", payments::hammer(&TestStore::sqlite().url().unwrap(), start, 4).unwrap());
}

/// Schedule 58. CLAIM-54.
#[test]
fn every_key_is_paid_once_although_servers_are_killed_on_one_server() {
    println!("{}", payments::hammer(&TestStore::postgres().url().unwrap(), start, 4).unwrap());
}
