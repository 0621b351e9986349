//! One running server: the postmaster, a child process, and the processes that it starts.
//!
//! It is started and signalled directly instead of by `pg_ctl`, so that its end is known from the
//! kernel and not from a file, and so that this process reaps it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::folder::Folder;
use crate::polling::wait_for;
use crate::programs::Programs;

/// PostgreSQL's shutdown modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Waits until every client has disconnected.
    Smart,
    /// Disconnects every client, then shuts down cleanly.
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

/// A running postmaster.
#[derive(Debug)]
pub(crate) struct Postmaster(Child);

impl Postmaster {
    /// Starts a server in a folder with data, and waits until it accepts connections.
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
        // The postmaster first: only it starts other processes.
        self.0.kill().map_err(Failure::to("kill the server"))?;
        wait_for("the end of a killed server's processes", || {
            let left = processes_in(data)?;
            for process in &left {
                // It may have ended already.
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
    /// By now the guardian has stopped it, or a start has failed; it has to be reaped.
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Options on the command line override every settings file, also a copied one.
fn command(programs: &Programs, folder: &Folder, port: u16) -> Result<Command, Failure> {
    let mut command = programs.command("postgres");
    command.arg("-D").arg(folder.data()).arg("-k").arg(folder.sockets());
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    command.stdout(folder.log()?).stderr(folder.log()?);
    // In its own process group, so that terminal signals do not stop it.
    command.process_group(0);
    Ok(command)
}

/// Whether the server's pid file says that this postmaster accepts connections. A file of an
/// earlier, killed one says so too.
fn says_ready(data: &Path, postmaster: u32) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    lines.first() == Some(&postmaster.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

/// The processes whose working directory is this folder, as for every process of a server.
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
