//! Real processes, to be killed, stopped and continued in the middle of whatever they do.
//!
//! A child is the very test binary that starts it, told by its environment what to be: the test
//! that plays the child asks [`Role::ours`], and does nothing if there is none. It notes what it
//! does in a file, and looks at files to know when to go on.

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
use tidelock::prelude::*;
use tokio::time::timeout;

use crate::{TestStore, until};

const URL: &str = "TIDELOCK_TEST_URL";
const FOLDER: &str = "TIDELOCK_TEST_FOLDER";
const ROLE: &str = "TIDELOCK_TEST_ROLE";

/// Whoever has not written by then stands behind somebody who is stopped, or is tried once more for
/// nothing.
const MOMENT: Duration = Duration::from_secs(2);

/// Where parent and children meet.
#[derive(Debug)]
pub struct Meeting {
    folder: TempDir,
    url: String,
    /// The full name of the test that plays the child.
    child: &'static str,
}

impl Meeting {
    /// For children on this stage, played by the test of this full name.
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

    /// What children noted, in order.
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

    /// Lets children go on that wait for this.
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

/// What a child knows.
#[derive(Debug, Clone)]
pub struct Role {
    /// What it is to be.
    pub name: String,
    /// The store that it is to open.
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
        // In one write: what other processes note meanwhile goes before it or behind, and never
        // between a line and its end.
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
