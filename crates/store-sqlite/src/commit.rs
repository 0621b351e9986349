//! One commit inside a transaction that it shares with others (group commit).
//!
//! All expectations of a commit are judged before its first row is written. So a refused commit
//! leaves nothing to undo, and the other commits of the transaction are not affected.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use tidelock_store::plan::{
    self, Decided, Floors, Plan, ReadRows, RecordRow, Remembered, StreamRow,
};
use tidelock_store::{
    Commit, CommitId, CommitOutcome, Committed, EventId, Item, ItemRef, Position, RecordKey,
    Result, StoreError, StoredEvent, StreamName, Timestamp, Topic, Version,
};

use crate::error::{corrupt, failed};
use crate::leases::{find_item, put_item};
use crate::log::{event, event_columns, find_stream, last_position, no_meta, number};
use crate::records::find_record;

/// Capacity of the writer's stream cache.
const STREAMS: usize = 10_000;

/// The writer's cache across transactions. Valid as long as no other connection has written to the
/// file, and no transaction was rolled back.
#[derive(Debug, Default)]
pub(crate) struct WriterCache {
    streams: HashMap<StreamName, (i64, StreamRow)>,
    last_position: Option<Position>,
    floors: Option<Floors>,
}

impl WriterCache {
    pub(crate) fn forget(&mut self) {
        self.streams.clear();
        self.last_position = None;
        self.floors = None;
    }

    pub(crate) fn forget_stream(&mut self, name: &StreamName) {
        self.streams.remove(name);
    }

    pub(crate) fn forget_floors(&mut self) {
        self.floors = None;
    }

    fn remember(&mut self, name: &StreamName, id: i64, row: StreamRow) {
        match self.streams.get_mut(name) {
            Some(known) => *known = (id, row),
            None => {
                if self.streams.len() == STREAMS {
                    self.streams.clear();
                }
                self.streams.insert(name.clone(), (id, row));
            }
        }
    }
}

/// A transaction that several commits write to in turn.
pub(crate) struct Transaction<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) cache: &'a mut WriterCache,
    pub(crate) now: Timestamp,
    /// The topics to notify once the transaction is durable; none if there is no waiter.
    pub(crate) topics: Option<&'a mut Vec<Topic>>,
}

pub(crate) fn commit(transaction: &mut Transaction<'_>, commit: &Commit) -> Result<CommitOutcome> {
    Ok(match plan::decide(commit, transaction.now, transaction)? {
        Decided::Replay(committed) => CommitOutcome::Committed(committed),
        Decided::Conflict(conflict) => CommitOutcome::Conflict(conflict),
        Decided::Apply(plan) => CommitOutcome::Committed(transaction.write(*plan)?),
    })
}

const FIND_EVENT: &str =
    concat!("SELECT ", event_columns!(), " FROM tidelock_events WHERE id = ?1");

impl ReadRows for Transaction<'_> {
    fn remembered(&mut self, id: CommitId) -> Result<Option<Remembered>> {
        let sql = "SELECT fingerprint, committed, coalesce(forget_at, committed_at + 604800000000)
                   FROM tidelock_commits WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([id.as_bytes()]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let committed: String = row.get(1).map_err(failed)?;
        let committed = serde_json::from_str(&committed).map_err(|e| {
            StoreError::corrupt(format!("the result of commit {id} cannot be read")).caused_by(e)
        })?;
        let forget_at = Timestamp::from_micros(row.get(2).map_err(failed)?).map_err(corrupt)?;
        Ok(Some(Remembered { fingerprint: row.get(0).map_err(failed)?, committed, forget_at }))
    }

    fn stream(&mut self, name: &StreamName) -> Result<Option<StreamRow>> {
        if let Some((_, row)) = self.cache.streams.get(name) {
            return Ok(Some(*row));
        }
        let found = find_stream(self.connection, name)?;
        if let Some((id, row)) = found {
            self.cache.remember(name, id, row);
        }
        Ok(found.map(|(_, row)| row))
    }

    fn event(&mut self, id: EventId) -> Result<Option<StoredEvent>> {
        let mut statement = self.connection.prepare_cached(FIND_EVENT).map_err(failed)?;
        let mut rows = statement.query([id.as_bytes()]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let stream: i64 = row.get(1).map_err(failed)?;
        let sql = "SELECT name FROM tidelock_streams WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let name: String = statement.query_row([stream], |row| row.get(0)).map_err(failed)?;
        event(row, StreamName::new(name)?).map(Some)
    }

    fn record(&mut self, key: &RecordKey) -> Result<Option<RecordRow>> {
        find_record(self.connection, key)
    }

    fn item(&mut self, item: &ItemRef) -> Result<Option<Item>> {
        find_item(self.connection, item)
    }

    fn last_position(&mut self) -> Result<Position> {
        if let Some(position) = self.cache.last_position {
            return Ok(position);
        }
        let position = last_position(self.connection)?;
        self.cache.last_position = Some(position);
        Ok(position)
    }

    fn floors(&mut self) -> Result<Floors> {
        if let Some(floors) = self.cache.floors {
            return Ok(floors);
        }
        let floors = read_floors(self.connection)?;
        self.cache.floors = Some(floors);
        Ok(floors)
    }

    fn version_floor(&mut self, category: &str) -> Result<u64> {
        let sql = "SELECT version FROM tidelock_version_floors WHERE category = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([category]).map_err(failed)?;
        rows.next().map_err(failed)?.map_or(Ok(0), |row| number(row, 0))
    }
}

impl Transaction<'_> {
    /// Writes the plan, and records the topics to notify.
    pub(crate) fn write(&mut self, plan: Plan) -> Result<Committed> {
        self.apply(&plan)?;
        if let Some(topics) = &mut self.topics {
            topics.extend(plan.topics());
        }
        Ok(plan.committed)
    }

    fn apply(&mut self, plan: &Plan) -> Result<()> {
        for (name, row) in &plan.streams {
            self.put_stream(name, *row)?;
        }
        for event in &plan.events {
            self.add_event(event)?;
        }
        for (stream, through) in &plan.trims {
            self.trim(stream, *through)?;
        }
        for (key, row) in &plan.records {
            self.put_record(key, row)?;
        }
        for item in &plan.items {
            put_item(self.connection, item)?;
        }
        if let Some((id, remembered)) = &plan.remember {
            self.remember(*id, remembered)?;
        }
        Ok(())
    }

    fn put_stream(&mut self, name: &StreamName, row: StreamRow) -> Result<()> {
        let (version, first) = (row.version.get() as i64, row.first.get() as i64);
        let forget_at = row.forget_at.map(Timestamp::micros);
        let id = match self.stream_id(name)? {
            Some(id) => {
                let sql = "UPDATE tidelock_streams SET version = ?2, first = ?3, closed = ?4, forget_at = ?5
                           WHERE id = ?1";
                self.execute(sql, params![id, version, first, row.closed, forget_at])?;
                id
            }
            None => {
                let sql = "INSERT INTO tidelock_streams (name, version, first, closed, forget_at)
                           VALUES (?1, ?2, ?3, ?4, ?5)";
                self.execute(sql, params![name.as_str(), version, first, row.closed, forget_at])?;
                self.connection.last_insert_rowid()
            }
        };
        self.cache.remember(name, id, row);
        Ok(())
    }

    fn add_event(&mut self, event: &StoredEvent) -> Result<()> {
        let stream = self.known_stream_id(&event.stream)?;
        let sql = concat!(
            "INSERT INTO tidelock_events (",
            event_columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        );
        let row = params![
            event.position.get() as i64,
            stream,
            event.version.get() as i64,
            event.id.as_bytes(),
            event.event_type.as_str(),
            event.payload.as_str(),
            event.metadata.as_str(),
            event.recorded_at.micros(),
        ];
        self.execute(sql, row)?;
        self.cache.last_position = Some(event.position);
        Ok(())
    }

    fn trim(&mut self, stream: &StreamName, through: Version) -> Result<()> {
        // The newest positions may be among those that are removed; they must not be given out
        // again.
        let last = self.last_position()?;
        self.execute("UPDATE tidelock_meta SET position_floor = ?1", params![last.get() as i64])?;
        let id = self.known_stream_id(stream)?;
        let sql = "DELETE FROM tidelock_events WHERE stream = ?1 AND version <= ?2";
        self.execute(sql, params![id, through.get() as i64])?;
        Ok(())
    }

    fn put_record(&mut self, key: &RecordKey, row: &RecordRow) -> Result<()> {
        let sql = "INSERT INTO tidelock_records (key, revision, value, expires_at) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (key) DO UPDATE SET revision = ?2, value = ?3, expires_at = ?4";
        let value = row.value.as_ref().map(tidelock_store::RawJson::as_str);
        let expires_at = row.expires_at.map(Timestamp::micros);
        self.execute(sql, params![key.as_str(), row.revision.get() as i64, value, expires_at])?;
        Ok(())
    }

    fn remember(&mut self, id: CommitId, remembered: &Remembered) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO tidelock_commits (id, fingerprint, committed, committed_at, forget_at)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let committed =
            serde_json::to_string(&remembered.committed).expect("a result is names and numbers");
        let (now, forget_at) = (self.now.micros(), remembered.forget_at.micros());
        self.execute(
            sql,
            params![id.as_bytes(), remembered.fingerprint, committed, now, forget_at],
        )?;
        Ok(())
    }

    fn stream_id(&mut self, name: &StreamName) -> Result<Option<i64>> {
        match self.cache.streams.get(name) {
            Some((id, _)) => Ok(Some(*id)),
            None => Ok(find_stream(self.connection, name)?.map(|(id, _)| id)),
        }
    }

    fn known_stream_id(&mut self, name: &StreamName) -> Result<i64> {
        self.stream_id(name)?.ok_or_else(|| {
            StoreError::corrupt(format!("stream {name:?} was written and is not there"))
        })
    }

    /// Executes a statement; returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, row: impl rusqlite::Params) -> Result<usize> {
        self.connection.prepare_cached(sql).map_err(failed)?.execute(row).map_err(failed)
    }
}

pub(crate) const FLOORS: &str = "SELECT epoch, revision_floor, fence_floor FROM tidelock_meta";

fn read_floors(connection: &Connection) -> Result<Floors> {
    let mut statement = connection.prepare_cached(FLOORS).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let row = rows.next().map_err(failed)?.ok_or_else(no_meta)?;
    Ok(Floors { epoch: number(row, 0)?, revision: number(row, 1)?, fence: number(row, 2)? })
}
