//! The writes of a batch of commits, row by row, and the statements that make them.

use std::collections::{BTreeMap, BTreeSet};

use tidelock_store::plan::{RecordRow, Remembered, StreamRow};
use tidelock_store::{
    CommitId, Committed, Item, ItemRef, Position, RawJson, RecordKey, Result, StoreError,
    StoredEvent, StreamName, Timestamp, Version,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::columns::{EventColumns, ItemColumns};
use super::pipeline::{Nth, Pipeline};
use super::rows::{Held, Loaded};
use super::{Placed, ordinal, provisional, replace_provisional};
use crate::read_column::ReadColumn;
use crate::statement::{Statement, sql_file, statement};

static CREATE_STREAMS: Statement = statement!(
    "INSERT INTO tidelock.streams (name, version, first, closed, forget_at)
     SELECT * FROM unnest($1, $2, $3, $4, $5) AS s (name, version, first, closed, forget_at)
     ORDER BY name": TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT8_ARRAY);
/// A separate statement after the streams were created: it must see what they may have waited for.
static CHECK_FLOORS: Statement =
    statement!("SELECT tidelock.check_floors($1, $2)": TEXT_ARRAY, INT8_ARRAY);
/// Only trims move the first remaining event.
static CHANGE_STREAMS: Statement = statement!(
    "UPDATE tidelock.streams s SET version = n.version, closed = n.closed, forget_at = n.forget_at
     FROM unnest($1, $2, $3, $4, $5) AS n (name, version, first, closed, forget_at)
     WHERE s.name = n.name": TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT8_ARRAY);
static CREATE_RECORDS: Statement = statement!(
    "INSERT INTO tidelock.records (key, revision, value, expires_at)
     SELECT * FROM unnest($1, $2, $3, $4) AS r (key, revision, value, expires_at) ORDER BY key":
    TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY);
static CHANGE_RECORDS: Statement = statement!(
    "UPDATE tidelock.records r SET revision = n.revision, value = n.value, expires_at = n.expires_at
     FROM unnest($1, $2, $3, $4) AS n (key, revision, value, expires_at) WHERE r.key = n.key":
    TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY);
static CREATE_ITEMS: Statement = statement!(file "create_items":
    TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
    INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, BOOL_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY,
    INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY);
/// A fence never goes back: a writer that judged an item by an older lease than its newest writes
/// nothing.
static CHANGE_ITEMS: Statement =
    Statement { sql: sql_file!("change_items"), types: CREATE_ITEMS.types };
/// After all row locks, and in a separate statement before any position is drawn.
static TAKE_TICKET: Statement = statement!(
    "SELECT tidelock.take_ticket(l.last)
     FROM (SELECT pg_sequence_last_value('tidelock.positions') AS last) l"
);
static ADD_EVENTS: Statement = statement!(file "add_events":
    TEXT_ARRAY, INT8_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8);
/// A row under that id is either past its retention, or another transaction's that was not there a
/// moment ago: then the insert is refused like any other.
static FORGET: Statement = statement!(
    "DELETE FROM tidelock.commits c WHERE c.id = ANY ($1) AND :forget_at <= $2": UUID_ARRAY, INT8);
/// The events that each of the commits mentions are in `$4`, as ranges.
static REMEMBER: Statement = statement!(file "remember":
    UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, UUID_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8, INT8_ARRAY);
static CLOSE_FOR_TRIM: Statement = statement!(
    "UPDATE tidelock.streams SET closed = true WHERE name = ANY ($1) AND NOT closed": TEXT_ARRAY);
static TRIM: Statement = statement!(
    "SELECT tidelock.trim(n.name, n.through) FROM unnest($1, $2) AS n (name, through)":
    TEXT_ARRAY, INT8_ARRAY);
/// Writes something, so that the commit waits for the disk, and for its synchronous standbys.
static CONFIRM: Statement =
    statement!("UPDATE tidelock.meta SET clock = greatest(clock, tidelock.calendar() + shift)");
static LET_GO: Statement = statement!("SELECT tidelock.let_go($1, $2)": TEXT_ARRAY, TEXT_ARRAY);

pub(super) static STATEMENTS: [&Statement; 15] = [
    &CREATE_STREAMS,
    &CHECK_FLOORS,
    &CHANGE_STREAMS,
    &CREATE_RECORDS,
    &CHANGE_RECORDS,
    &CREATE_ITEMS,
    &CHANGE_ITEMS,
    &TAKE_TICKET,
    &ADD_EVENTS,
    &FORGET,
    &REMEMBER,
    &CLOSE_FOR_TRIM,
    &TRIM,
    &CONFIRM,
    &LET_GO,
];

/// Rows to write. If several commits of the batch write a row, the last state is kept.
#[derive(Debug)]
pub(super) struct Writes {
    pub(super) now: Timestamp,
    new: Tables,
    old: Tables,
    events: Vec<StoredEvent>,
    trims: Vec<(StreamName, Version)>,
    commits: BTreeMap<CommitId, Remembered>,
    /// The floors above which new streams were created.
    floors: BTreeMap<StreamName, u64>,
    confirm: bool,
    held: Held,
    /// New events are not dated before this moment.
    not_before: i64,
}

/// Rows to insert, or rows to update.
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
            floors: BTreeMap::new(),
            confirm: false,
            held: loaded.held().clone(),
            not_before: i64::MIN,
        }
    }

    pub(super) fn put_stream(&mut self, name: &StreamName, row: StreamRow, there: bool) {
        self.tables(there).streams.insert(name.clone(), row);
    }

    /// Checks that this is still the floor above which the stream is created.
    pub(super) fn check_floor(&mut self, name: &StreamName, floor: u64) {
        self.floors.insert(name.clone(), floor);
    }

    pub(super) fn put_record(&mut self, key: &RecordKey, row: &RecordRow, there: bool) {
        self.tables(there).records.insert(key.clone(), row.clone());
    }

    pub(super) fn put_item(&mut self, item: Item, there: bool) {
        self.tables(there).items.insert(item.item.clone(), item);
    }

    pub(super) fn add_event(&mut self, event: &StoredEvent) {
        self.events.push(event.clone());
    }

    pub(super) fn trim(&mut self, stream: &StreamName, through: Version) {
        self.trims.push((stream.clone(), through));
    }

    pub(super) fn remember(&mut self, id: CommitId, remembered: &Remembered) {
        self.commits.insert(id, remembered.clone());
    }

    /// A commit is about to be acknowledged. If all of it existed before (from an attempt whose
    /// answer was lost, perhaps because it could not wait for its standby), that must be as durable
    /// as anything new.
    pub(super) fn confirm(&mut self) {
        self.confirm = true;
    }

    /// Dates new events at this moment or later, for a transaction whose snapshot may lack the
    /// newest ones.
    pub(super) fn not_before(&mut self, moment: Timestamp) {
        self.not_before = moment.micros();
    }

    /// Writes nothing for the sake of durability alone, because another writer ends the
    /// transaction.
    pub(super) fn without_confirmation(&mut self) {
        self.confirm = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.has_no_rows() && !self.confirm
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

    /// Adds everything, in the order in which all writers of this store write; returns where the
    /// positions of the events are found.
    pub(super) fn send(&self, pipeline: &mut Pipeline) -> Option<Nth> {
        self.release_placeholders(pipeline);
        put_streams(pipeline, &CREATE_STREAMS, &self.new.streams);
        self.check_floors(pipeline);
        put_streams(pipeline, &CHANGE_STREAMS, &self.old.streams);
        put_records(pipeline, &CREATE_RECORDS, &self.new.records);
        put_records(pipeline, &CHANGE_RECORDS, &self.old.records);
        put_items(pipeline, &CREATE_ITEMS, &self.new.items);
        put_items(pipeline, &CHANGE_ITEMS, &self.old.items);
        self.forget(pipeline);
        let events = self.add_events(pipeline);
        self.send_trims(pipeline);
        self.send_commits(pipeline);
        if self.confirm && self.has_no_rows() {
            pipeline.add(&CONFIRM, &[]);
        }
        events
    }

    /// The positions of the new events, from the answer to `ADD_EVENTS`.
    pub(super) fn placed(&self, rows: &[impl ReadColumn]) -> Result<Placed> {
        if self.events.is_empty() {
            return Ok(Placed { positions: Vec::new(), at: self.now });
        }
        let row = rows
            .first()
            .ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
        let positions: Vec<i64> = row.column(0)?;
        let at = Timestamp::from_micros(row.column(1)?)?;
        let positions = positions.into_iter().map(|position| Position::new(position as u64));
        Ok(Placed { positions: positions.collect::<Result<_>>()?, at })
    }

    /// Removes the placeholder rows. They keep other transactions out until the end of the
    /// transaction, and new rows are created in their place.
    fn release_placeholders(&self, pipeline: &mut Pipeline) {
        let Held { streams, records } = &self.held;
        if !(streams.is_empty() && records.is_empty()) {
            pipeline.add(&LET_GO, &[streams, records]);
        }
    }

    fn check_floors(&self, pipeline: &mut Pipeline) {
        if self.floors.is_empty() {
            return;
        }
        let (names, floors): (Vec<&str>, Vec<i64>) =
            self.floors.iter().map(|(name, floor)| (name.as_str(), *floor as i64)).unzip();
        pipeline.add(&CHECK_FLOORS, &[&names, &floors]);
    }

    fn add_events(&self, pipeline: &mut Pipeline) -> Option<Nth> {
        if self.events.is_empty() {
            return None;
        }
        pipeline.add(&TAKE_TICKET, &[]);
        let events = EventColumns::of(&self.events);
        Some(pipeline.add(&ADD_EVENTS, &events.parameters(&self.not_before)))
    }

    fn send_trims(&self, pipeline: &mut Pipeline) {
        if self.trims.is_empty() {
            return;
        }
        let (names, through): (Vec<&str>, Vec<i64>) = self
            .trims
            .iter()
            .map(|(stream, through)| (stream.as_str(), through.get() as i64))
            .unzip();
        pipeline.add(&CLOSE_FOR_TRIM, &[&names]);
        pipeline.add(&TRIM, &[&names, &through]);
        // Some of them are open in the end.
        put_streams(pipeline, &CHANGE_STREAMS, &self.new.streams);
        put_streams(pipeline, &CHANGE_STREAMS, &self.old.streams);
    }

    fn forget(&self, pipeline: &mut Pipeline) {
        if self.commits.is_empty() {
            return;
        }
        let ids: Vec<Uuid> =
            self.commits.keys().map(|id| Uuid::from_bytes(*id.as_bytes())).collect();
        pipeline.add(&FORGET, &[&ids, &self.now.micros()]);
    }

    fn send_commits(&self, pipeline: &mut Pipeline) {
        if self.commits.is_empty() {
            return;
        }
        pipeline.add(&REMEMBER, &RememberColumns::of(self).parameters());
    }

    /// The id of the event with this number.
    fn event_id(&self, nth: u64) -> Option<Uuid> {
        let event = self.events.get(usize::try_from(nth).ok()?.checked_sub(1)?)?;
        Some(Uuid::from_bytes(*event.id.as_bytes()))
    }
}

/// Commits to remember, as columns.
#[derive(Debug, Default)]
struct RememberColumns {
    ids: Vec<Uuid>,
    fingerprints: Vec<Uuid>,
    committed: Vec<String>,
    /// The new events whose positions the results mention, one commit after the other.
    mentions: Vec<Uuid>,
    mentions_from: Vec<i32>,
    mentions_to: Vec<i32>,
    now: i64,
    forget_at: Vec<i64>,
}

impl RememberColumns {
    fn of(writes: &Writes) -> Self {
        let mut memory = Self { now: writes.now.micros(), ..Self::default() };
        for (id, remembered) in &writes.commits {
            let mut committed = remembered.committed.clone();
            let mentioned = renumber(&mut committed);
            memory.ids.push(Uuid::from_bytes(*id.as_bytes()));
            memory.fingerprints.push(Uuid::from_bytes(remembered.fingerprint));
            memory
                .committed
                .push(serde_json::to_string(&committed).expect("a result is names and numbers"));
            memory.mentions_from.push(memory.mentions.len() as i32 + 1);
            memory.mentions.extend(mentioned.into_iter().filter_map(|nth| writes.event_id(nth)));
            memory.mentions_to.push(memory.mentions.len() as i32);
            memory.forget_at.push(remembered.forget_at.micros());
        }
        memory
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.ids,
            &self.fingerprints,
            &self.committed,
            &self.mentions,
            &self.mentions_from,
            &self.mentions_to,
            &self.now,
            &self.forget_at,
        ]
    }
}

/// Renumbers the provisional positions of a result from 1, in their order; returns their numbers in
/// the batch. They need not be the commit's own: it may repeat what an earlier commit of the batch
/// has just appended.
fn renumber(committed: &mut Committed) -> Vec<u64> {
    let positions = committed.appends.iter().filter_map(|appended| appended.positions);
    let mentioned: BTreeSet<u64> =
        positions.flat_map(|(first, last)| [first, last]).filter_map(ordinal).collect();
    let mentioned: Vec<u64> = mentioned.into_iter().collect();
    let renumbered = |nth| Ok(provisional(mentioned.partition_point(|known| *known <= nth) as u64));
    replace_provisional(committed, renumbered).expect("every number has a place");
    mentioned
}

fn put_streams(
    pipeline: &mut Pipeline,
    statement: &'static Statement,
    rows: &BTreeMap<StreamName, StreamRow>,
) {
    if rows.is_empty() {
        return;
    }
    let names: Vec<&str> = rows.keys().map(StreamName::as_str).collect();
    let versions: Vec<i64> = rows.values().map(|row| row.version.get() as i64).collect();
    let firsts: Vec<i64> = rows.values().map(|row| row.first.get() as i64).collect();
    let closed: Vec<bool> = rows.values().map(|row| row.closed).collect();
    let forget_at: Vec<Option<i64>> =
        rows.values().map(|row| row.forget_at.map(Timestamp::micros)).collect();
    pipeline.add(statement, &[&names, &versions, &firsts, &closed, &forget_at]);
}

fn put_records(
    pipeline: &mut Pipeline,
    statement: &'static Statement,
    rows: &BTreeMap<RecordKey, RecordRow>,
) {
    if rows.is_empty() {
        return;
    }
    let keys: Vec<&str> = rows.keys().map(RecordKey::as_str).collect();
    let revisions: Vec<i64> = rows.values().map(|row| row.revision.get() as i64).collect();
    let values: Vec<Option<&str>> =
        rows.values().map(|row| row.value.as_ref().map(RawJson::as_str)).collect();
    let expiries: Vec<Option<i64>> =
        rows.values().map(|row| row.expires_at.map(Timestamp::micros)).collect();
    pipeline.add(statement, &[&keys, &revisions, &values, &expiries]);
}

fn put_items(
    pipeline: &mut Pipeline,
    statement: &'static Statement,
    rows: &BTreeMap<ItemRef, Item>,
) {
    if !rows.is_empty() {
        pipeline.add(statement, &ItemColumns::of(rows.values()).parameters());
    }
}
