//! A stopped server process: its connection is open, and it does not answer.

use std::process::Command;

use crate::ground::Plain;

/// A process that is stopped, until this is dropped.
pub(crate) struct Stopped(i32);

impl Stopped {
    /// Stops the one session of the store whose last statement was of this form.
    pub(crate) async fn session(plain: &Plain, query: &str) -> Self {
        let which = "SELECT pid FROM pg_stat_activity WHERE application_name = '@' AND query LIKE ";
        let stopped = Self(plain.one(&format!("{which}'{query}'")).await);
        signal("-STOP", stopped.0);
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(which: &str, process: i32) {
    let sent = Command::new("kill").args([which, &process.to_string()]).status().unwrap();
    assert!(sent.success());
}
