//! Events at the end of streams.

use std::path::Path;

use rusqlite::{Connection, params};
use tidelock::store::EventId;

use super::{Transactions, now, open};
use crate::baseline::loops::BareLoop;
use crate::failure::Failure;
use crate::rows;

/// One commit of each caller in every transaction, each on its own stream.
pub(in crate::baseline) fn commits(
    path: &Path,
    callers: usize,
    events: usize,
) -> Result<Box<dyn BareLoop>, Failure> {
    let connection = open(path)?;
    let insert = "INSERT INTO tidelock_streams (name, version, first, closed) VALUES (?1, 0, 1, 0)";
    let mut streams = Vec::with_capacity(callers);
    for caller in 0..callers {
        connection.execute(insert, [rows::stream_name(caller)])?;
        streams.push(Stream { id: connection.last_insert_rowid(), version: 0 });
    }
    Ok(Box::new(Commits { connection, streams, events, position: 0, payload: rows::payload() }))
}

struct Commits {
    connection: Connection,
    streams: Vec<Stream>,
    events: usize,
    position: i64,
    payload: String,
}

struct Stream {
    id: i64,
    version: i64,
}

impl BareLoop for Commits {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let Self { connection, streams, events, position, payload } = self;
        let mut transactions = Transactions::on(connection)?;
        let mut update =
            connection.prepare("UPDATE tidelock_streams SET version = ?2 WHERE id = ?1")?;
        let mut insert = connection.prepare(
            "INSERT INTO tidelock_events (position, stream, version, id, type, payload, metadata, recorded_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, '{}', ?7)",
        )?;
        let mut ops = 0;
        while time_for_more() {
            transactions.one(|| {
                let now = now();
                for Stream { id, version } in &mut *streams {
                    for _ in 0..*events {
                        *position += 1;
                        *version += 1;
                        let event = EventId::fresh();
                        insert.execute(params![
                            *position,
                            *id,
                            *version,
                            event.as_bytes(),
                            rows::EVENT_TYPE,
                            *payload,
                            now
                        ])?;
                    }
                    update.execute(params![*id, *version])?;
                }
                Ok(())
            })?;
            ops += streams.len() as u64;
        }
        Ok(ops)
    }
}
