//! A guardian process that outlives this one and cleans up after it.
//!
//! A test harness leaves by `exit`, which drops nothing, and stress tests kill whole processes,
//! which run nothing. Only another process notices both. It waits for the end of a pipe that this
//! process holds; its cleanup is the only way in which a server ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::Failure;

/// Stops one server and removes its folder, when dropped or when this process ends.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Starts a guardian of a server's folder, before anything runs in it.
    pub(crate) fn post(folder: &Path) -> Result<Self, Failure> {
        let child = Command::new("/bin/sh")
            .args(["-c", include_str!("guardian.sh"), "guardian"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // In its own process group, so that terminal signals do not reach it.
            .process_group(0)
            .current_dir("/")
            .spawn();
        child.map(Self).map_err(Failure::to("post a guardian over a server"))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It cannot fail: the child is ours, and nothing else waits for it.
        let _ended = self.0.wait();
    }
}
