//! Change detection across processes.
//!
//! The writer itself signals what this process writes. Writes of other processes change the file's
//! data version, which the write connection can see without reading anything. This thread makes it
//! check from time to time, and only while there is a waiter.

use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use tidelock_store::{ChangeHints, Result, StoreError};

use crate::writer::Writer;

/// The thread that makes the writer check.
#[derive(Debug)]
pub(crate) struct Watch {
    thread: Thread,
}

impl Watch {
    /// Starts the thread; it ends with the writer's last handle.
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

    /// Called when there is a new waiter.
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
