//! The wish of a person, or of a supervisor, that a command that goes on for ever should end.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for an interrupt or a request to end. Where signals cannot be waited for, they end the process by themselves.
pub(crate) async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
