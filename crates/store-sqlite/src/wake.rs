//! Signals from other processes.
//!
//! What this process writes is signalled by the writer itself. What others write shows in the
//! file's data version, which the writer's connection can see without reading anything; this thread
//! has it look from time to time, and only while somebody waits.

use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use tidelock_store::{ChangeHints, Result, StoreError};

use crate::writer::Writer;

/// The thread that has the writer look.
#[derive(Debug)]
pub(crate) struct Watch {
    thread: Thread,
}

impl Watch {
    /// Starts the thread; it ends when the writer's last handle is gone.
    pub(crate) fn start(
        writer: &Arc<Writer>,
        signals: ChangeHints,
        interval: Duration,
    ) -> Result<Self> {
        let writer = Arc::downgrade(writer);
        let handle = thread::Builder::new()
            .name("tidelock-watch".into())
            .spawn(move || serve(&writer, &signals, interval))
            .map_err(|e| {
                StoreError::invalid("a thread for watching cannot be started").caused_by(e)
            })?;
        Ok(Self { thread: handle.thread().clone() })
    }

    /// Somebody waits now.
    pub(crate) fn wake(&self) {
        self.thread.unpark();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

fn serve(writer: &Weak<Writer>, signals: &ChangeHints, interval: Duration) {
    loop {
        match writer.upgrade() {
            Some(writer) if signals.any_waiter() => writer.look(),
            Some(_) => {}
            None => return,
        }
        if signals.any_waiter() {
            thread::park_timeout(interval);
        } else {
            thread::park();
        }
    }
}
