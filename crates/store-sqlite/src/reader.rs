//! Read connections.
//!
//! A few threads, each with its own connection, take reads in turn. Readers never wait for the
//! writer: in WAL mode each sees a snapshot as of the start of its transaction.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use rusqlite::Connection;
use tidelock_store::{Result, StoreError, StoreOperation, StreamName};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::error::{closed, failed};

/// Capacity of a reader's cache of stream names.
const NAMES: usize = 10_000;

/// A connection with its cache.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) names: Names,
}

/// Stream names by row id. Streams are never renamed, but the id of a forgotten stream may be
/// reused.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<i64, StreamName>,
    /// How many streams had been forgotten when the names were cached.
    forgotten: u64,
}

impl Names {
    /// Updates the count of forgotten streams; the cache is cleared if it grew.
    pub(crate) fn keep_up(&mut self, forgotten: u64) {
        if self.forgotten != forgotten {
            self.known.clear();
            self.forgotten = forgotten;
        }
    }

    pub(crate) fn get(&mut self, connection: &Connection, id: i64) -> Result<StreamName> {
        if let Some(name) = self.known.get(&id) {
            return Ok(name.clone());
        }
        let sql = "SELECT name FROM tidelock_streams WHERE id = ?1";
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        let name: String = statement.query_row([id], |row| row.get(0)).map_err(failed)?;
        let name = StreamName::new(name)?;
        if self.known.len() == NAMES {
            self.known.clear();
        }
        self.known.insert(id, name.clone());
        Ok(name)
    }
}

type Read = Box<dyn FnOnce(&mut Reader) + Send>;

/// The queue of the reading threads.
#[derive(Debug)]
pub(crate) struct Readers {
    /// None once closed.
    queue: RwLock<Option<Sender<Read>>>,
    /// Each thread holds the other end until it has closed its connection.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Readers {
    /// Starts a thread for each connection; they end with the last handle.
    pub(crate) fn start(connections: Vec<Connection>) -> Result<Self> {
        let (queue, reads) = crossbeam_channel::unbounded();
        let (alive, ended) = mpsc::channel(1);
        for connection in connections {
            let (reads, alive) = (reads.clone(), alive.clone());
            let serve = move || {
                serve(Reader { connection, names: Names::default() }, &reads);
                drop(alive);
            };
            thread::Builder::new().name("tidelock-read".into()).spawn(serve).map_err(|e| {
                StoreError::invalid("a thread for reading cannot be started").caused_by(e)
            })?;
        }
        Ok(Self { queue: RwLock::new(Some(queue)), ended: Mutex::new(ended) })
    }

    /// Reads from one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: StoreOperation,
        read: impl FnOnce(&mut Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let read = Box::new(move |reader: &mut Reader| {
            if !reply.is_closed() {
                let _ = reply.send(at_one_moment(reader, read));
            }
        });
        self.send(read).ok_or_else(|| closed(operation))?;
        answer.await.map_err(|_| closed(operation))?.map_err(|e| e.during(operation))
    }
}

impl Readers {
    fn send(&self, read: Read) -> Option<()> {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref()?.send(read).ok()
    }

    /// Fails once the readers are closed.
    pub(crate) fn check_open(&self, operation: StoreOperation) -> Result<()> {
        match *self.queue.read().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Ok(()),
            None => Err(closed(operation)),
        }
    }

    /// Ends the threads once everything queued before is read.
    pub(crate) async fn close(&self) {
        drop(self.queue.write().unwrap_or_else(PoisonError::into_inner).take());
        while self.ended.lock().await.recv().await.is_some() {}
    }
}

fn serve(mut reader: Reader, reads: &Receiver<Read>) {
    for read in reads {
        read(&mut reader);
    }
}

fn at_one_moment<T>(reader: &mut Reader, read: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
    let run = |reader: &Reader, sql| reader.connection.prepare_cached(sql)?.execute([]);
    run(reader, "BEGIN").map_err(failed)?;
    let result = read(reader);
    // Nothing was written, so a failed COMMIT loses nothing.
    let ended = run(reader, "COMMIT").map_err(failed);
    result.and_then(|value| ended.map(|_| value))
}
