//! One running server: the postmaster, which is our child, and the processes that it starts.
//!
//! It is started and signalled directly and not by `pg_ctl`, so that its end is known from the
//! kernel and not from a file, and so that no one's `init` has to bury it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::folder::Folder;
use crate::patience::wait_for;
use crate::programs::Programs;

/// How a server is stopped; PostgreSQL's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Waits until every client has left.
    Smart,
    /// Sends every client away, then shuts down in good order.
    Fast,
    /// Stops at once, without writing anything back; the next start recovers from the log.
    Immediate,
}

impl Stop {
    fn signal(self) -> Signal {
        match self {
            Self::Smart => Signal::SIGTERM,
            Self::Fast => Signal::SIGINT,
            Self::Immediate => Signal::SIGQUIT,
        }
    }
}

/// A postmaster that has been started and not yet been seen to end.
#[derive(Debug)]
pub(crate) struct Postmaster(Child);

impl Postmaster {
    /// Starts a server in a folder that has data, and waits until it takes connections.
    pub(crate) fn start(programs: &Programs, folder: &Folder, port: u16) -> Result<Self, Failure> {
        let child =
            command(programs, folder, port)?.spawn().map_err(Failure::to("start postgres"))?;
        let mut postmaster = Self(child);
        postmaster.wait_until_ready(folder)?;
        Ok(postmaster)
    }

    /// Stops the server, and waits until it has ended.
    pub(crate) fn stop(&mut self, how: Stop) -> Result<(), Failure> {
        kill(self.pid(), how.signal()).map_err(Failure::to("signal the server"))?;
        self.wait_for_the_end()
    }

    /// Kills the server with all of its processes, and waits until they have ended.
    pub(crate) fn kill(&mut self, data: &Path) -> Result<(), Failure> {
        // The postmaster first: after it, nobody starts another.
        self.0.kill().map_err(Failure::to("kill the server"))?;
        wait_for("the end of a killed server's processes", || {
            let left = processes_in(data)?;
            for process in &left {
                // One that has ended in the meantime is what we want.
                let _killed = kill(*process, Signal::SIGKILL);
            }
            Ok((self.ended()? && left.is_empty()).then_some(()))
        })
    }

    fn wait_for_the_end(&mut self) -> Result<(), Failure> {
        wait_for("the end of the server", || Ok(self.ended()?.then_some(())))
    }

    fn ended(&mut self) -> Result<bool, Failure> {
        Ok(self.0.try_wait().map_err(Failure::to("wait for the server"))?.is_some())
    }

    fn wait_until_ready(&mut self, folder: &Folder) -> Result<(), Failure> {
        wait_for("the server to take connections", || {
            if self.ended()? {
                return Err(Failure::new(format!(
                    "the server did not start:\n{}",
                    folder.last_words()
                )));
            }
            Ok(says_ready(folder.data(), self.0.id()).then_some(()))
        })
    }

    fn pid(&self) -> Pid {
        pid(self.0.id())
    }
}

impl Drop for Postmaster {
    /// By now the guardian has stopped it, or a start has failed; it remains to be buried.
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// What is said here holds against every file of settings, also against one that was copied from
/// another server.
fn command(programs: &Programs, folder: &Folder, port: u16) -> Result<Command, Failure> {
    let mut command = programs.command("postgres");
    command.arg("-D").arg(folder.data()).arg("-k").arg(folder.sockets());
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    command.stdout(folder.log()?).stderr(folder.log()?);
    // Not of our group, so that what a terminal sends to us does not stop it under our hands.
    command.process_group(0);
    Ok(command)
}

/// Whether the server's own file says that this very postmaster takes connections. A file of an
/// earlier one, which was killed, says so too.
fn says_ready(data: &Path, postmaster: u32) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    lines.first() == Some(&postmaster.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

/// The processes that work in this folder, as every process of a server does.
fn processes_in(data: &Path) -> Result<Vec<Pid>, Failure> {
    let entries = fs::read_dir("/proc").map_err(Failure::to("list the processes"))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.filter(|number| works_in(*number, data)).map(pid).collect())
}

fn works_in(process: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|link| link == folder)
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(
        i32::try_from(process).expect("a process's number is positive in the kernel's own type"),
    )
}
