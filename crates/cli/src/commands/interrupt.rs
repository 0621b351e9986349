//! The wish of a person, or of a supervisor, that a command that goes on for ever should end.

use std::future::pending;
use std::io;
use std::process::exit;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for an interrupt or a request to end, of which none is missed from this call on: whoever
/// hears that a command has begun may end it at once. Where signals cannot be waited for, they end
/// the process by themselves.
///
/// Whoever asks a second time does not want to wait for what is still being brought to its end: the
/// process ends there and then, as after a crash, from which every store comes back.
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

    /// Waits for the next one, and gives the exit code that shells have for whatever was ended by
    /// it.
    async fn next(&mut self) -> i32 {
        let ended_by = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        128 + ended_by.as_raw_value()
    }
}
