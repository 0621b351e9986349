//! What a batch of commits writes, row by row, and the statements that write it.

use std::collections::BTreeMap;

use tidelock_store::plan::{RecordRow, Remembered, StreamRow};
use tidelock_store::{
    CommitId, Event, Item, ItemRef, Json, RecordKey, Result, StoreError, StreamName, Timestamp, Version,
    limits,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::columns::{EventColumns, ItemColumns};
use super::rows::{Held, Loaded};
use super::{Base, Sent};
use crate::error::failed;
use crate::log::number;
use crate::session::Session;
use crate::statement::Statement;

static CREATE_STREAMS: Statement = Statement::new(
    "INSERT INTO tidelock.streams (name, version, closed)
     SELECT * FROM unnest($1, $2, $3) AS s (name, version, closed) ORDER BY name",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BOOL_ARRAY],
);
static CHANGE_STREAMS: Statement = Statement::new(
    "UPDATE tidelock.streams s SET version = n.version, closed = n.closed
     FROM unnest($1, $2, $3) AS n (name, version, closed) WHERE s.name = n.name",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BOOL_ARRAY],
);
static CREATE_RECORDS: Statement = Statement::new(
    "INSERT INTO tidelock.records (key, revision, value, expires_at)
     SELECT * FROM unnest($1, $2, $3, $4) AS r (key, revision, value, expires_at) ORDER BY key",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY],
);
static CHANGE_RECORDS: Statement = Statement::new(
    "UPDATE tidelock.records r SET revision = n.revision, value = n.value, expires_at = n.expires_at
     FROM unnest($1, $2, $3, $4) AS n (key, revision, value, expires_at) WHERE r.key = n.key",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY],
);

/// The columns of an item in the order of the parameters that write them.
macro_rules! written_columns {
    () => {
        "queue, key, lane, priority, at, mark, due, hold, ready, attempts, failures, expiries, blocked, error, fence, \
         worker, since, deadline, settled"
    };
}
macro_rules! written_items {
    () => {
        concat!(
            "unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) AS n (",
            written_columns!(),
            ")"
        )
    };
}
const ITEM_TYPES: &[Type] = &[
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT2_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::INT4_ARRAY,
    Type::INT4_ARRAY,
    Type::BOOL_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
];

static CREATE_ITEMS: Statement = Statement::new(
    concat!(
        "INSERT INTO tidelock.items (",
        written_columns!(),
        ") SELECT * FROM ",
        written_items!(),
        " ORDER BY queue, key"
    ),
    ITEM_TYPES,
);
/// A fence never goes back: whoever judged an item by an older lease than its newest writes nothing.
static CHANGE_ITEMS: Statement = Statement::new(
    concat!(
        "UPDATE tidelock.items i SET
            lane = n.lane, priority = n.priority, at = n.at, mark = n.mark, due = n.due, hold = n.hold, ready = n.ready,
            attempts = n.attempts, failures = n.failures, expiries = n.expiries, blocked = n.blocked, error = n.error,
            fence = n.fence, worker = n.worker, since = n.since, deadline = n.deadline, settled = n.settled
         FROM ",
        written_items!(),
        " WHERE i.queue = n.queue AND i.key = n.key AND (i.fence IS NULL OR i.fence <= n.fence)"
    ),
    ITEM_TYPES,
);
/// The last lock of all, the one that orders the feed; held for nothing but the events and the commit.
static LOCK_GATE: Statement = Statement::new("SELECT FROM tidelock.gate FOR UPDATE", &[]);
/// A statement of its own, after the gate's: only then does it see what was committed while the gate was waited for.
static ADD_EVENTS: Statement = Statement::new(
    "WITH last AS MATERIALIZED (SELECT base, moment FROM tidelock.last()),
     added AS (
        INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT base + nth, n.stream, n.version, n.id, n.type, n.payload, n.metadata, moment
        FROM last, unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
            AS n (stream, version, id, type, payload, metadata, nth))
     SELECT base, moment FROM last",
    &[
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
);
/// A row under that id is one that has been forgotten, or else somebody else's that was not there a moment ago: then the
/// insert is refused like any other.
static FORGET: Statement = Statement::new(
    "DELETE FROM tidelock.commits WHERE id = ANY ($1) AND committed_at <= $2",
    &[Type::UUID_ARRAY, Type::INT8],
);
static REMEMBER: Statement = Statement::new(
    "INSERT INTO tidelock.commits (id, fingerprint, committed, base, committed_at)
     SELECT n.id, n.fingerprint, n.committed, coalesce(l.base, 0) - $4, CASE WHEN $4 = 0 THEN $5 ELSE l.recorded_at END
     FROM unnest($1, $2, $3) AS n (id, fingerprint, committed), LATERAL (
        SELECT max(position) AS base, max(recorded_at) AS recorded_at FROM (
            SELECT position, recorded_at FROM tidelock.events ORDER BY position DESC LIMIT 1) e) l
     ORDER BY n.id",
    &[Type::UUID_ARRAY, Type::UUID_ARRAY, Type::TEXT_ARRAY, Type::INT8, Type::INT8],
);
static CLOSE_FOR_TRIM: Statement = Statement::new(
    "UPDATE tidelock.streams SET closed = true WHERE name = ANY ($1) AND NOT closed",
    &[Type::TEXT_ARRAY],
);
static TRIM: Statement = Statement::new(
    "SELECT tidelock.trim(n.name, n.through) FROM unnest($1, $2) AS n (name, through)",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY],
);
/// Writes something, so that the commit waits for the disk, and for the standbys that it has to wait for.
static CONFIRM: Statement =
    Statement::new("UPDATE tidelock.meta SET clock = greatest(clock, tidelock.calendar() + shift)", &[]);

static LET_GO: Statement =
    Statement::new("SELECT tidelock.let_go($1, $2)", &[Type::TEXT_ARRAY, Type::TEXT_ARRAY]);

pub(super) static STATEMENTS: [&Statement; 14] = [
    &CREATE_STREAMS,
    &CHANGE_STREAMS,
    &CREATE_RECORDS,
    &CHANGE_RECORDS,
    &CREATE_ITEMS,
    &CHANGE_ITEMS,
    &LOCK_GATE,
    &ADD_EVENTS,
    &FORGET,
    &REMEMBER,
    &CLOSE_FOR_TRIM,
    &TRIM,
    &CONFIRM,
    &LET_GO,
];

/// Rows to write. Of a row that several commits of the batch write, the last state is kept.
#[derive(Debug)]
pub(super) struct Writes {
    pub(super) now: Timestamp,
    new: Tables,
    old: Tables,
    events: Vec<Event>,
    trims: Vec<(StreamName, Version)>,
    commits: BTreeMap<CommitId, Remembered>,
    confirm: bool,
    held: Held,
    /// Whether the transaction has more in it than these rows, which is to land even if there are none of them.
    pub(super) others: bool,
}

/// Rows that are created, or rows that are changed.
#[derive(Debug, Default)]
struct Tables {
    streams: BTreeMap<StreamName, StreamRow>,
    records: BTreeMap<RecordKey, RecordRow>,
    items: BTreeMap<ItemRef, Item>,
}

impl Writes {
    pub(super) fn new(loaded: &Loaded) -> Self {
        Self {
            now: loaded.now,
            new: Tables::default(),
            old: Tables::default(),
            events: Vec::new(),
            trims: Vec::new(),
            commits: BTreeMap::new(),
            confirm: false,
            held: loaded.held().clone(),
            others: false,
        }
    }

    pub(super) fn put_stream(&mut self, name: &StreamName, row: StreamRow, there: bool) {
        self.tables(there).streams.insert(name.clone(), row);
    }

    pub(super) fn put_record(&mut self, key: &RecordKey, row: &RecordRow, there: bool) {
        self.tables(there).records.insert(key.clone(), row.clone());
    }

    pub(super) fn put_item(&mut self, item: Item, there: bool) {
        self.tables(there).items.insert(item.item.clone(), item);
    }

    pub(super) fn add_event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }

    pub(super) fn trim(&mut self, stream: &StreamName, through: Version) {
        self.trims.push((stream.clone(), through));
    }

    pub(super) fn remember(&mut self, id: CommitId, remembered: &Remembered) {
        self.commits.insert(id, remembered.clone());
    }

    /// A commit is about to be acknowledged. If all of it was there before (from a try whose answer was lost, perhaps
    /// because it could not wait for its standby), that must be as durable as anything new.
    pub(super) fn confirm(&mut self) {
        self.confirm = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.has_no_rows() && !self.confirm && !self.others
    }

    fn has_no_rows(&self) -> bool {
        let tables = [&self.new, &self.old];
        tables.iter().all(|t| t.streams.is_empty() && t.records.is_empty() && t.items.is_empty())
            && self.events.is_empty()
            && self.trims.is_empty()
            && self.commits.is_empty()
    }

    fn tables(&mut self, there: bool) -> &mut Tables {
        if there { &mut self.old } else { &mut self.new }
    }

    /// Sends everything, in the order in which all writers of this store write.
    pub(super) fn send<'a>(&'a self, session: &'a Session) -> Vec<Sent<'a>> {
        let mut sent = Vec::new();
        put_streams(session, &CREATE_STREAMS, &self.new.streams, &mut sent);
        put_streams(session, &CHANGE_STREAMS, &self.old.streams, &mut sent);
        put_records(session, &CREATE_RECORDS, &self.new.records, &mut sent);
        put_records(session, &CHANGE_RECORDS, &self.old.records, &mut sent);
        put_items(session, &CREATE_ITEMS, &self.new.items, &mut sent);
        put_items(session, &CHANGE_ITEMS, &self.old.items, &mut sent);
        self.forget(session, &mut sent);
        self.add_events(session, &mut sent);
        self.send_trims(session, &mut sent);
        self.send_commits(session, &mut sent);
        if !(self.held.streams.is_empty() && self.held.records.is_empty()) {
            let Held { streams, records } = &self.held;
            sent.push(Box::pin(async move { session.query(&LET_GO, &[streams, records]).await }));
        }
        if self.confirm && self.has_no_rows() {
            sent.push(Box::pin(session.query(&CONFIRM, &[])));
        }
        sent
    }

    /// Where the new events came to lie.
    pub(super) fn base(&self, answers: &[Vec<Row>]) -> Result<Base> {
        if self.events.is_empty() {
            return Ok(Base { position: 0, at: self.now });
        }
        let mut rows = answers.iter().flatten().filter(|row| row.len() == 2);
        let row = rows.next().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
        let at = Timestamp::from_micros(row.try_get(1).map_err(failed)?)?;
        Ok(Base { position: number(row, 0)?, at })
    }

    fn add_events<'a>(&'a self, session: &'a Session, sent: &mut Vec<Sent<'a>>) {
        if self.events.is_empty() {
            return;
        }
        sent.push(Box::pin(session.query(&LOCK_GATE, &[])));
        let events = EventColumns::of(&self.events);
        sent.push(Box::pin(async move { session.query(&ADD_EVENTS, &events.parameters()).await }));
    }

    fn send_trims<'a>(&'a self, session: &'a Session, sent: &mut Vec<Sent<'a>>) {
        if self.trims.is_empty() {
            return;
        }
        let (names, through): (Vec<&str>, Vec<i64>) =
            self.trims.iter().map(|(stream, through)| (stream.as_str(), through.get() as i64)).unzip();
        let trimmed = names.clone();
        sent.push(Box::pin(async move { session.query(&CLOSE_FOR_TRIM, &[&trimmed]).await }));
        sent.push(Box::pin(async move { session.query(&TRIM, &[&names, &through]).await }));
        // Some of them are to be open in the end.
        put_streams(session, &CHANGE_STREAMS, &self.old.streams, sent);
    }

    fn forget<'a>(&'a self, session: &'a Session, sent: &mut Vec<Sent<'a>>) {
        if self.commits.is_empty() {
            return;
        }
        let ids: Vec<Uuid> = self.commits.keys().map(|id| Uuid::from_bytes(*id.as_bytes())).collect();
        let until = self.now.micros() - limits::COMMIT_MEMORY.as_micros() as i64;
        sent.push(Box::pin(async move { session.query(&FORGET, &[&ids, &until]).await }));
    }

    fn send_commits<'a>(&'a self, session: &'a Session, sent: &mut Vec<Sent<'a>>) {
        if self.commits.is_empty() {
            return;
        }
        let ids: Vec<Uuid> = self.commits.keys().map(|id| Uuid::from_bytes(*id.as_bytes())).collect();
        let fingerprints: Vec<Uuid> =
            self.commits.values().map(|c| Uuid::from_bytes(c.fingerprint)).collect();
        let committed: Vec<String> = self.commits.values().map(committed_text).collect();
        let (added, now) = (self.events.len() as i64, self.now.micros());
        sent.push(Box::pin(async move {
            session.query(&REMEMBER, &[&ids, &fingerprints, &committed, &added, &now]).await
        }));
    }
}

fn committed_text(remembered: &Remembered) -> String {
    serde_json::to_string(&remembered.committed).expect("a result is names and numbers")
}

fn put_streams<'a>(
    session: &'a Session,
    statement: &'static Statement,
    rows: &'a BTreeMap<StreamName, StreamRow>,
    sent: &mut Vec<Sent<'a>>,
) {
    if rows.is_empty() {
        return;
    }
    let names: Vec<&str> = rows.keys().map(StreamName::as_str).collect();
    let versions: Vec<i64> = rows.values().map(|row| row.version.get() as i64).collect();
    let closed: Vec<bool> = rows.values().map(|row| row.closed).collect();
    sent.push(Box::pin(async move { session.query(statement, &[&names, &versions, &closed]).await }));
}

fn put_records<'a>(
    session: &'a Session,
    statement: &'static Statement,
    rows: &'a BTreeMap<RecordKey, RecordRow>,
    sent: &mut Vec<Sent<'a>>,
) {
    if rows.is_empty() {
        return;
    }
    let keys: Vec<&str> = rows.keys().map(RecordKey::as_str).collect();
    let revisions: Vec<i64> = rows.values().map(|row| row.revision.get() as i64).collect();
    let values: Vec<Option<&str>> = rows.values().map(|row| row.value.as_ref().map(Json::as_str)).collect();
    let expiries: Vec<Option<i64>> = rows.values().map(|row| row.expires_at.map(Timestamp::micros)).collect();
    sent.push(Box::pin(
        async move { session.query(statement, &[&keys, &revisions, &values, &expiries]).await },
    ));
}

fn put_items<'a>(
    session: &'a Session,
    statement: &'static Statement,
    rows: &'a BTreeMap<ItemRef, Item>,
    sent: &mut Vec<Sent<'a>>,
) {
    if !rows.is_empty() {
        let items = ItemColumns::of(rows.values());
        sent.push(Box::pin(async move { session.query(statement, &items.parameters()).await }));
    }
}
