//! The wish of a person, or of a supervisor, that a command that goes on for ever should end.

use std::future::pending;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for an interrupt or a request to end, of which none is missed from this call on: whoever hears that a command has begun may end
/// it at once. Where signals cannot be waited for, they end the process by themselves.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
