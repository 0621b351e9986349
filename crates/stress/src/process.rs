//! The supervisor's handle of a worker process: orders, reports, signals, and its end.

use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::counts::Counts;
use crate::evidence::End;
use crate::pipe::{self, Held, Order, Report};
use crate::plan::WorkerSlot;
use crate::roles::WORKER;
use crate::worker_spec::WorkerSpec;

/// A report of a worker; none once it has ended.
pub(crate) type Heard = (String, Option<Report>);

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) slot: WorkerSlot,
    /// What it holds while it waits.
    pub(crate) holding: Option<Held>,
    /// Its progress, as last reported.
    pub(crate) counts: Counts,
    /// Why it cannot continue.
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
    pub(crate) fn start(
        slot: WorkerSlot,
        spec: &WorkerSpec,
        heard: Sender<Heard>,
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut orders = child.stdin.take().expect("its input is a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let name = spec.name.clone();
        thread::spawn(move || {
            while let Ok(Some(report)) = pipe::read(&mut output) {
                // The receiver is gone when the round was aborted.
                let _ = heard.send((name.clone(), Some(report)));
            }
            let _ = heard.send((name, None));
        });
        // The spec goes through the pipe, because its URL may have a password that a command line
        // would show.
        pipe::write(&mut orders, spec)?;
        Ok(Self {
            slot,
            holding: None,
            counts: Counts::default(),
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
            Some(Report::Counts(counts)) => self.counts = counts,
            Some(Report::Holding(held)) => self.holding = Some(held),
            Some(Report::Failed(why)) => self.complaint = Some(why),
            None => self.ended = true,
        }
    }

    /// Sends an order. A process that has ended receives none; the audit judges how it ended.
    pub(crate) fn tell(&mut self, order: Order) {
        let _ = pipe::write(&mut self.orders, &order);
    }

    /// Stops it (SIGSTOP) until it is continued.
    pub(crate) fn stop(&self) {
        self.send(Signal::SIGSTOP);
    }

    pub(crate) fn go_on(&self) {
        self.send(Signal::SIGCONT);
    }

    /// Kills it in the middle of anything.
    pub(crate) fn kill(&mut self) {
        self.condemned = true;
        self.send(Signal::SIGKILL);
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id fits");
        // It has not been waited for, so the process id is still its own, even if it has ended.
        let _ = kill(Pid::from_raw(id), signal);
    }

    /// How it ended. If it has not, it is killed now, and that is a failure.
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
    /// No worker outlives its round.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
