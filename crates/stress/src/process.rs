//! A worker process, as the supervisor has it: told, heard, injured, waited for.

use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cast::Seat;
use crate::counts::Counts;
use crate::evidence::End;
use crate::part::WorkerSpec;
use crate::pipe::{self, Held, Order, Report};
use crate::roles::WORKER;

/// What a worker said; nothing once it has ended.
pub(crate) type Heard = (String, Option<Report>);

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) seat: Seat,
    /// What it says it holds while it waits for what happens to it.
    pub(crate) holding: Option<Held>,
    /// How much it has done, as it last said.
    pub(crate) did: Counts,
    /// Why it says that it cannot go on.
    pub(crate) complaint: Option<String>,
    pub(crate) ready: bool,
    pub(crate) ended: bool,
    /// It was killed on purpose.
    pub(crate) condemned: bool,
    child: Child,
    orders: ChildStdin,
}

impl Process {
    /// Starts this binary again, as a worker.
    pub(crate) fn start(seat: Seat, part: &WorkerSpec, heard: Sender<Heard>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut orders = child.stdin.take().expect("its input is a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let name = part.name.clone();
        thread::spawn(move || {
            while let Ok(Some(report)) = pipe::read(&mut output) {
                // Nobody listens any more when the round has been given up.
                let _ = heard.send((name.clone(), Some(report)));
            }
            let _ = heard.send((name, None));
        });
        // The part goes through the pipe, as the URL in it may have a password that a command line
        // would show.
        pipe::write(&mut orders, part)?;
        Ok(Self {
            seat,
            holding: None,
            did: Counts::default(),
            complaint: None,
            ready: false,
            ended: false,
            condemned: false,
            child,
            orders,
        })
    }

    pub(crate) fn hear(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Ready) => self.ready = true,
            Some(Report::Did(did)) => self.did = did,
            Some(Report::Holding(held)) => self.holding = Some(held),
            Some(Report::Failed(why)) => self.complaint = Some(why),
            None => self.ended = true,
        }
    }

    /// Gives an order. One that has ended takes none, and how it ended is the audit's affair.
    pub(crate) fn tell(&mut self, order: Order) {
        let _ = pipe::write(&mut self.orders, &order);
    }

    /// Keeps it from working until it is continued.
    pub(crate) fn stop(&self) {
        self.send(Signal::SIGSTOP);
    }

    pub(crate) fn go_on(&self) {
        self.send(Signal::SIGCONT);
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        self.condemned = true;
        self.send(Signal::SIGKILL);
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id fits");
        // It has not been waited for, so the id is still its own, even if it has ended.
        let _ = kill(Pid::from_raw(id), signal);
    }

    /// How it ended. If it has not, it is ended now, and that is no good end.
    pub(crate) fn end(mut self) -> io::Result<End> {
        if !self.ended {
            self.send(Signal::SIGKILL);
            self.complaint.get_or_insert("did not end when it was told to".to_owned());
        }
        let status = self.child.wait()?;
        Ok(match (&self.complaint, self.condemned) {
            (Some(why), _) => End::Failed(why.clone()),
            (None, true) if status.signal() == Some(Signal::SIGKILL as i32) => End::Killed,
            (None, _) if status.success() => End::Told,
            (None, _) => End::Failed(format!("ended by itself: {status}")),
        })
    }
}

impl Drop for Process {
    /// Whatever happened to the round, no worker outlives it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
