//! Real processes, to be killed, stopped and continued at any moment.
//!
//! A child is the same test binary, with a role in its environment: the test that is the child's
//! code calls [`Role::ours`], and does nothing without a role. A child writes notes to a file, and
//! waits for files of the parent.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tidelock::store::{Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite};
use tokio::time::timeout;

use crate::{TestStore, until};

const URL: &str = "TIDELOCK_TEST_URL";
const FOLDER: &str = "TIDELOCK_TEST_FOLDER";
const ROLE: &str = "TIDELOCK_TEST_ROLE";

/// A writer that has not finished by then waits for a stopped one, or is retried needlessly.
const MOMENT: Duration = Duration::from_secs(2);

/// The shared files of parent and children.
#[derive(Debug)]
pub struct Meeting {
    folder: TempDir,
    url: String,
    /// The full name of the test that is the child's code.
    child: &'static str,
}

impl Meeting {
    /// For children on this store, whose code is the test of this full name.
    pub fn on(stage: &TestStore, child: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url: stage.url().unwrap(), child }
    }

    /// Starts a child with this role.
    pub fn start(&self, role: &str) -> Process {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", self.child]);
        command.env(URL, &self.url).env(FOLDER, self.folder.path()).env(ROLE, role);
        Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The notes of the children, in order.
    pub fn notes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a note that begins like this.
    pub async fn until_noted(&self, beginning: &str) {
        let noted = async || self.notes().iter().any(|line| line.starts_with(beginning));
        until(&format!("{beginning} is noted"), noted).await;
    }

    /// Stops a child at a moment when others can write: one that is stopped while it writes to an
    /// SQLite file keeps the file locked.
    pub async fn stop(&self, child: &Process) {
        let store = tidelock::open(&self.url).await.unwrap();
        let key = RecordKey::new("stopped").unwrap();
        let something = Commit::new().write(RecordWrite::put(
            &key,
            ExpectedRevision::Any,
            RawJson::new(&1).unwrap(),
        ));
        loop {
            child.signal(Signal::SIGSTOP);
            if let Ok(Ok(_written)) = timeout(MOMENT, store.commit(something.clone())).await {
                return;
            }
            child.signal(Signal::SIGCONT);
        }
    }

    /// Lets children continue that wait for this.
    pub fn allow(&self, what: &str) {
        fs::write(self.folder.path().join(what), "").unwrap();
    }
}

/// A child; killed when it is dropped, if it has not ended before.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// Kills it, and waits until it is gone.
    pub async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.until_ended().await;
    }

    /// Waits until it has ended by itself.
    pub async fn until_ended(&mut self) {
        let child = Mutex::new(&mut self.0);
        until("the child ended", async || child.lock().unwrap().try_wait().unwrap().is_some())
            .await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The role of a child.
#[derive(Debug, Clone)]
pub struct Role {
    /// The name of the role.
    pub name: String,
    /// The URL of its store.
    pub url: String,
    folder: PathBuf,
}

impl Role {
    /// The role of this process, if it is a child.
    pub fn ours() -> Option<Self> {
        let (url, folder, name) =
            (env::var(URL).ok()?, env::var(FOLDER).ok()?, env::var(ROLE).ok()?);
        Some(Self { name, url, folder: folder.into() })
    }

    /// Adds a line to the notes.
    pub fn note(&self, line: &str) {
        let path = self.folder.join("notes");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        // In one write, so that lines of other processes never interleave.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until the parent allows this.
    pub async fn allowed(&self, what: &str) {
        let path = self.folder.join(what);
        while !path.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn lines_that_are_noted_at_once_are_all_whole() {
        let folder = tempfile::tempdir().unwrap();
        let role =
            |name: String| Role { name, url: String::new(), folder: folder.path().to_owned() };
        thread::scope(|scope| {
            for child in 0..4 {
                let role = role(format!("child {child}"));
                scope.spawn(move || {
                    (0..1_000).for_each(|nth| role.note(&format!("{} {nth}", role.name)));
                });
            }
        });
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        let mut noted: Vec<&str> = notes.lines().collect();
        let mut expected: Vec<String> = (0..4)
            .flat_map(|child| (0..1_000).map(move |nth| format!("child {child} {nth}")))
            .collect();
        noted.sort_unstable();
        expected.sort_unstable();
        assert_eq!(noted, expected);
    }
}
