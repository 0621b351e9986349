//! Moving what was committed from the log into the file proper.
//!
//! Left alone, SQLite does this inside whichever commit makes the log long, and that caller waits. Here a thread with a
//! connection of its own does the bulk of it while commits go on. Commits that came meanwhile keep the log from starting
//! anew, so the writer then moves those few pages itself, between two transactions; after that the log begins again at
//! its start instead of growing for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB};
use tidelock_store::{Result, StoreError};

/// Pages in the log from which on it is worth moving them: 8 MiB.
const WORTH_MOVING: i32 = 2_000;
/// Pages in the log at which commits wait for the move: 512 MiB.
const TOO_LONG: i32 = 128_000;

/// The writer's side.
pub(crate) struct Checkpoints {
    wanted: Sender<()>,
    /// The bulk has been moved: the writer should move the rest.
    nearly_done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread; it ends when the writer does.
    pub(crate) fn start(connection: Connection) -> Result<Self> {
        // Room for one: asking again while it is at it asks for nothing new.
        let (wanted, requests) = crossbeam_channel::bounded(1);
        let nearly_done = Arc::new(AtomicBool::new(false));
        let done = nearly_done.clone();
        let thread = thread::Builder::new()
            .name("tidelock-checkpoint".into())
            .spawn(move || serve(&connection, &requests, &done))
            .map_err(|e| StoreError::invalid("a thread for checkpoints cannot be started").caused_by(e))?;
        Ok(Self { wanted, nearly_done, thread })
    }

    /// Ends the thread and waits until it has let go of the file.
    pub(crate) fn close(self) {
        drop(self.wanted);
        // If it panicked, its connection is closed all the same.
        let _ = self.thread.join();
    }

    /// Called by the writer between two transactions.
    pub(crate) fn after_commit(&self, connection: &Connection, log_pages: i32) {
        if log_pages >= TOO_LONG || self.nearly_done.swap(false, Ordering::Relaxed) {
            checkpoint(connection);
        } else if log_pages >= WORTH_MOVING
            && let Err(TrySendError::Disconnected(())) = self.wanted.try_send(())
        {
            checkpoint(connection);
        }
    }
}

fn serve(connection: &Connection, requests: &Receiver<()>, nearly_done: &AtomicBool) {
    for () in requests {
        if checkpoint(connection) {
            nearly_done.store(true, Ordering::Relaxed);
        }
    }
}

/// Moves what can be moved without waiting for anybody; says whether it could be tried.
///
/// A checkpoint that fails loses nothing: the log stays, and the next one tries again.
fn checkpoint(connection: &Connection) -> bool {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE) {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed; the log stays until the next one");
            false
        }
    }
}
