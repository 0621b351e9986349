//! Orphans: workers end when the supervisor itself is killed.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes that were started with this folder for temporary files.
fn processes_in(folder: &Path) -> Vec<Pid> {
    let setting = format!("TMPDIR={}", folder.display());
    let is_meant = |id: &i32| {
        // Unreadable if it has just ended, or belongs to another user.
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == setting.as_bytes())
    };
    let names = fs::read_dir("/proc")
        .expect("processes are listed")
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(is_meant)
        .map(Pid::from_raw)
        .collect()
}

/// Number of workers that have begun their journals.
fn journals_in(folder: &Path) -> usize {
    let folders = |folder: &Path| {
        let entries =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.collect::<Vec<_>>()
    };
    folders(folder).iter().flat_map(|run| folders(run)).flat_map(|round| folders(&round)).count()
}

fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    is_so()
}

#[test]
fn no_worker_outlives_a_supervisor_that_is_killed_not_even_a_stopped_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_tidelock-stress"))
        .args(["many-streams", "--store", "sqlite:", "--seconds", "60", "--workers", "4"])
        .env("TMPDIR", folder.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built with this test");
    assert!(
        comes_true(|| journals_in(folder.path()) == 6),
        "four workers, a follower and the supervisor begin"
    );
    let id = Pid::from_raw(i32::try_from(supervisor.id()).expect("it fits"));
    let workers: Vec<Pid> =
        processes_in(folder.path()).into_iter().filter(|process| *process != id).collect();
    assert_eq!(workers.len(), 5);
    workers.iter().for_each(|worker| kill(*worker, Signal::SIGSTOP).expect("it is there"));

    supervisor.kill().expect("it can be killed");
    supervisor.wait().expect("it can be waited for");

    let ended = comes_true(|| processes_in(folder.path()).is_empty());
    for worker in workers {
        // Most often because it has ended.
        let _ = kill(worker, Signal::SIGKILL);
    }
    assert!(ended, "a worker was left");
}
