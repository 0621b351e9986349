//! Checkpoints: move committed pages from the write-ahead log into the database file.
//!
//! By default, SQLite does this inside the commit that makes the log long, and that caller waits.
//! Here a thread with its own connection moves most pages while commits continue. Commits made in
//! the meantime keep the log from restarting, so the writer then moves those few pages itself,
//! between two transactions. After that the log restarts at its beginning instead of growing
//! without bound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rusqlite::Connection;
use tidelock_store::{Result, StoreError};

use crate::busy_backoff::is_busy;

/// Log pages from which a checkpoint is worthwhile: 8 MiB.
const WORTH_MOVING: i32 = 2_000;
/// Log pages at which the commits of every process are blocked briefly so that the log can restart:
/// 32 MiB.
const LONG: i32 = 4 * WORTH_MOVING;
/// Log pages at which commits wait for the checkpoint: 512 MiB.
const TOO_LONG: i32 = 128_000;

/// Moves nothing, and takes no lock.
const NOOP: &str = "PRAGMA main.wal_checkpoint(NOOP)";
/// Moves what no reader and no writer is in the way of.
const PASSIVE: &str = "PRAGMA main.wal_checkpoint(PASSIVE)";
/// Moves everything, and has the next commit begin the log again.
const RESTART: &str = "PRAGMA main.wal_checkpoint(RESTART)";

/// The progress of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No checkpoint was requested.
    Rest,
    /// The thread moves most pages.
    Moving,
    /// The writer should move the rest.
    NearlyDone,
}

/// The writer's handle to the checkpoint thread.
pub(crate) struct Checkpoints {
    wanted: Sender<()>,
    stage: Arc<Mutex<Stage>>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread; it ends with the writer.
    pub(crate) fn start(connection: Connection) -> Result<Self> {
        let (wanted, requests) = crossbeam_channel::unbounded();
        let stage = Arc::new(Mutex::new(Stage::Rest));
        let shared = stage.clone();
        let thread = thread::Builder::new()
            .name("tidelock-checkpoint".into())
            .spawn(move || serve(connection, &requests, &shared))
            .map_err(|e| {
                StoreError::invalid("a thread for checkpoints cannot be started").caused_by(e)
            })?;
        Ok(Self { wanted, stage, thread })
    }

    /// Ends the thread and waits until it has closed its connection.
    pub(crate) fn close(self) {
        drop(self.wanted);
        // Its connection is closed even if it panicked.
        let _ = self.thread.join();
    }

    /// Requests a checkpoint if the log is long; returns whether the writer must help.
    pub(crate) fn ask(&self, log_pages: i32) -> bool {
        if log_pages < WORTH_MOVING {
            return false;
        }
        let mut stage = lock(&self.stage);
        if *stage == Stage::Rest {
            let asked = self.wanted.send(()).is_ok();
            *stage = if asked { Stage::Moving } else { Stage::NearlyDone };
        }
        *stage == Stage::NearlyDone || log_pages >= TOO_LONG
    }

    /// Moves the rest on the writer's connection, between two transactions.
    pub(crate) fn finish(&self, connection: &Connection) {
        if checkpoint(connection, PASSIVE).is_some() {
            *lock(&self.stage) = Stage::Rest;
        }
    }
}

fn serve(mut connection: Connection, requests: &Receiver<()>, stage: &Mutex<Stage>) {
    if let Err(error) = connection.busy_handler(Some(wait_shortly)) {
        tracing::warn!(%error, "the log may grow long while several processes write");
    }
    let mut long = LONG;
    for () in requests {
        let moved = checkpoint(&connection, PASSIVE);
        *lock(stage) = match moved {
            // With several processes there is always a commit in the meantime, so this mode blocks
            // them all.
            Some((log, _)) if log >= long => {
                let restarted = checkpoint(&connection, RESTART).is_some();
                // A reader is in the way, possibly for a long time. Each attempt blocks every
                // commit, so attempts must be rare.
                long = if restarted { LONG } else { log.saturating_add(LONG) };
                Stage::Rest
            }
            Some((log, _)) => {
                long = long.min(log.saturating_add(LONG));
                Stage::NearlyDone
            }
            None => Stage::Rest,
        };
    }
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages in the log.
///
/// SQLite would also tell a hook within each commit, but the hooks of the versions of rusqlite that
/// this crate builds with have different types.
pub(crate) fn log_pages(connection: &Connection) -> Option<i32> {
    checkpoint(connection, NOOP).map(|(log, _)| log)
}

/// Moves as many pages as possible; returns the pages in the log and how many of them were moved,
/// if it could be tried.
///
/// A checkpoint that fails loses nothing: the log stays, and the next attempt continues.
fn checkpoint(connection: &Connection, sql: &str) -> Option<(i32, i32)> {
    let mut statement = connection.prepare_cached(sql).ok()?;
    match statement.query_row([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))) {
        Ok((false, pages)) => Some(pages),
        // Another checkpoint is running, or a reader is in the way.
        Ok((true, _)) => None,
        Err(error) if is_busy(&error) => None,
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed; the log stays until the next one");
            None
        }
    }
}

/// Waits as briefly as the writers do; with SQLite's own busy handler it would never be first.
/// Gives up after 200 ms.
fn wait_shortly(times: i32) -> bool {
    thread::sleep(Duration::from_micros(100));
    times < 2_000
}
