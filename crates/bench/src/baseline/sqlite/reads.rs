//! Events, read into owned values. The ids of streams are known; names are not looked up.

use std::hint::black_box;
use std::path::Path;

use rusqlite::{Connection, Params, Row, Statement};

use super::{limit, open};
use crate::baseline::loops::BareLoop;
use crate::failure::Failure;

/// One stream in every read, all of it.
pub(in crate::baseline) fn loads(path: &Path, events: usize) -> Result<Box<dyn BareLoop>, Failure> {
    let connection = open(path)?;
    let ids = connection
        .prepare("SELECT id FROM tidelock_streams")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(Box::new(Loads { connection, streams: ids, events, next: 0 }))
}

/// One page in every read.
pub(in crate::baseline) fn feed(path: &Path, page: usize) -> Result<Box<dyn BareLoop>, Failure> {
    Ok(Box::new(Feed { connection: open(path)?, page, after: 0 }))
}

struct Loads {
    connection: Connection,
    streams: Vec<i64>,
    events: usize,
    next: usize,
}

impl BareLoop for Loads {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let mut select = self.connection.prepare(
            "SELECT position, stream, version, id, type, payload, metadata, recorded_at FROM tidelock_events
             WHERE stream = ?1 ORDER BY version",
        )?;
        let mut ops = 0;
        while time_for_more() {
            let stream = self.streams[self.next % self.streams.len()];
            self.next += 1;
            let events = read(&mut select, [stream])?;
            if events.len() != self.events {
                return Err(Failure::Answer(format!(
                    "baseline: the stream with id {stream} has {} events",
                    events.len()
                )));
            }
            ops += 1;
        }
        Ok(ops)
    }
}

struct Feed {
    connection: Connection,
    page: usize,
    after: i64,
}

impl BareLoop for Feed {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let mut select = self.connection.prepare(
            "SELECT position, stream, version, id, type, payload, metadata, recorded_at FROM tidelock_events
             WHERE position > ?1 ORDER BY position LIMIT ?2",
        )?;
        let mut ops = 0;
        while time_for_more() {
            let events = read(&mut select, (self.after, limit(self.page)))?;
            self.after = events.last().map_or(0, |event| event.position);
            ops += events.len() as u64;
        }
        Ok(ops)
    }
}

/// What a row says, owned.
#[allow(dead_code)] // made to be made, not to be looked at
struct Event {
    position: i64,
    stream: i64,
    version: i64,
    id: [u8; 16],
    event_type: String,
    payload: String,
    metadata: String,
    recorded_at: i64,
}

fn read(select: &mut Statement<'_>, parameters: impl Params) -> Result<Vec<Event>, Failure> {
    let events = select.query_map(parameters, event)?.collect::<Result<Vec<_>, _>>()?;
    Ok(black_box(events))
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        position: row.get(0)?,
        stream: row.get(1)?,
        version: row.get(2)?,
        id: row.get(3)?,
        event_type: row.get(4)?,
        payload: row.get(5)?,
        metadata: row.get(6)?,
        recorded_at: row.get(7)?,
    })
}
