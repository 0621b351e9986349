//! Interrupts: SIGINT and SIGTERM for commands that run until they are stopped.

use std::future::pending;
use std::io;
use std::process::exit;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for an interrupt or a termination signal. Signals are caught from this call on, even
/// before the future is polled. Where signals cannot be handled, they end the process.
///
/// A second signal ends the process at once, like a crash, from which every store recovers.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let signals = Signals::heard();
    async {
        let Ok(mut signals) = signals else { return pending().await };
        signals.next().await;
        tokio::spawn(async move { exit(signals.next().await) });
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn heard() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal, and returns its conventional exit code.
    async fn next(&mut self) -> i32 {
        let ended_by = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        128 + ended_by.as_raw_value()
    }
}
