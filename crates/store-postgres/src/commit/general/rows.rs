//! The rows that a batch of commits names, locked and read.

use std::collections::{BTreeSet, HashMap, HashSet};

use tidelock_store::plan::{Floors, Plan, ReadRows, RecordRow, Remembered, StreamRow};
use tidelock_store::{
    Append, Change, Commit, CommitId, Committed, EventId, ExpectedVersion, Guard, Item, ItemRef,
    Position, RecordKey, Result, Revision, Settlement, StoreError, StoredEvent, StreamName,
    Timestamp, stream_category,
};
use uuid::Uuid;

use super::pipeline::{Answers, Nth, Pipeline};
use super::writes::Writes;
use super::{Placed, provisional, recall};
use crate::error::corrupt;
use crate::leases::item;
use crate::log::{Alike, number, stream_row, text};
use crate::read_column::ReadColumn;
use crate::records::record;
use crate::statement::{Statement, statement};

static LOCK_STREAMS: Statement = statement!(
    "SELECT name, version, first, closed, forget_at FROM tidelock.streams
     WHERE name = ANY ($1) ORDER BY name FOR NO KEY UPDATE": TEXT_ARRAY);
static LOCK_RECORDS: Statement = statement!(
    "SELECT :record_columns FROM tidelock.records r
     WHERE r.key = ANY ($1) ORDER BY r.key FOR NO KEY UPDATE": TEXT_ARRAY);
static LOCK_ITEMS: Statement = statement!(file "lock_items": TEXT_ARRAY, TEXT_ARRAY);
static FIND_EVENTS: Statement = statement!(
    "SELECT e.stream, :event_columns FROM tidelock.events e WHERE e.id = ANY ($1)": UUID_ARRAY);
static FIND_COMMITS: Statement = statement!(
    "SELECT c.id, c.fingerprint, c.committed, c.positions, c.committed_at, :forget_at, c.revisions
     FROM tidelock.commits c WHERE c.id = ANY ($1)": UUID_ARRAY);
/// Read after the streams are locked. Whether a floor was raised since then is checked after a
/// stream was created above it.
pub(super) static VERSION_FLOORS: Statement = statement!(
    "SELECT category, version FROM tidelock.version_floors WHERE category = ANY ($1)": TEXT_ARRAY);
/// A row that does not exist cannot be locked. Where a commit relies on a row's absence without
/// creating it, an empty one is inserted for the duration of the transaction, so that no other
/// transaction can create it.
static HOLD_STREAMS: Statement = statement!(
    "INSERT INTO tidelock.streams (name, version) SELECT name, 0 FROM unnest($1) AS s (name)
     ORDER BY name ON CONFLICT (name) DO NOTHING": TEXT_ARRAY);
static HOLD_RECORDS: Statement = statement!(
    "INSERT INTO tidelock.records (key, revision) SELECT key, 0 FROM unnest($1) AS r (key)
     ORDER BY key ON CONFLICT (key) DO NOTHING": TEXT_ARRAY);
/// The moment and the floors. Read last, when all locks are held: a batch that waited for a lock
/// must not judge by an earlier time.
pub(super) static MOMENT: Statement = statement!(
    "SELECT greatest(tidelock.calendar() + shift, clock), epoch, revision_floor, fence_floor
     FROM tidelock.meta"
);

pub(super) static STATEMENTS: [&Statement; 9] = [
    &HOLD_STREAMS,
    &LOCK_STREAMS,
    &HOLD_RECORDS,
    &LOCK_RECORDS,
    &LOCK_ITEMS,
    &FIND_EVENTS,
    &FIND_COMMITS,
    &VERSION_FLOORS,
    &MOMENT,
];

/// The rows that a batch names, each kind sorted and without duplicates.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    streams: Vec<String>,
    records: Vec<String>,
    queues: Vec<String>,
    keys: Vec<String>,
    events: Vec<Uuid>,
    commits: Vec<Uuid>,
    /// The categories of streams that may be created.
    categories: Vec<String>,
    absent: Absent,
}

/// How to treat rows that do not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Absent {
    /// Do nothing: an insert fails if another transaction was first.
    #[default]
    Leave,
    /// Keep other transactions from creating them.
    Hold,
}

impl Wanted {
    pub(super) fn by(batch: &[&Commit], absent: Absent) -> Self {
        let (mut streams, mut records, mut items) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut categories = BTreeSet::new();
        let mut wanted = Self { absent, ..Self::default() };
        for commit in batch {
            streams.extend(commit.appends.iter().map(|append| &append.stream));
            let creating = commit.appends.iter().filter(|append| may_create(append));
            categories.extend(creating.map(|append| stream_category(append.stream.as_str())));
            streams.extend(commit.trims.iter().map(|trim| &trim.stream));
            records.extend(commit.writes.iter().map(|write| &write.key));
            items.extend(commit.wakes.iter().map(|wake| &wake.item));
            items.extend(commit.restores.iter().map(|restored| &restored.item));
            items.extend(commit.settlements.iter().map(|settlement| &settlement.lease.item));
            items.extend(commit.fences.iter().map(|lease| &lease.item));
            for guard in &commit.guards {
                match guard {
                    Guard::Stream { stream, .. } => streams.insert(stream),
                    Guard::Record { key, .. } => records.insert(key),
                };
            }
            let events = commit.appends.iter().flat_map(|append| &append.events);
            wanted.events.extend(events.map(|event| Uuid::from_bytes(*event.id.as_bytes())));
            wanted.commits.extend(commit.id.map(|id| Uuid::from_bytes(*id.as_bytes())));
        }
        wanted.categories = categories.into_iter().map(str::to_owned).collect();
        wanted.streams = streams.into_iter().map(ToString::to_string).collect();
        wanted.records = records.into_iter().map(ToString::to_string).collect();
        (wanted.queues, wanted.keys) =
            items.into_iter().map(|item| (item.queue.to_string(), item.key.to_string())).unzip();
        wanted
    }

    pub(super) fn items(items: &[ItemRef]) -> Self {
        let items: BTreeSet<&ItemRef> = items.iter().collect();
        let (queues, keys) =
            items.into_iter().map(|item| (item.queue.to_string(), item.key.to_string())).unzip();
        Self { queues, keys, ..Self::default() }
    }

    /// Adds the query for each kind of row that is needed, and for the time.
    pub(super) fn ask(&self, pipeline: &mut Pipeline) -> Asked {
        let hold = self.absent == Absent::Hold;
        if hold {
            pipeline.add(&HOLD_STREAMS, &[&self.streams]);
        }
        let streams =
            (!self.streams.is_empty()).then(|| pipeline.add(&LOCK_STREAMS, &[&self.streams]));
        if hold {
            pipeline.add(&HOLD_RECORDS, &[&self.records]);
        }
        let records =
            (!self.records.is_empty()).then(|| pipeline.add(&LOCK_RECORDS, &[&self.records]));
        let items = (!self.queues.is_empty())
            .then(|| pipeline.add(&LOCK_ITEMS, &[&self.queues, &self.keys]));
        let events = (!self.events.is_empty()).then(|| pipeline.add(&FIND_EVENTS, &[&self.events]));
        let commits =
            (!self.commits.is_empty()).then(|| pipeline.add(&FIND_COMMITS, &[&self.commits]));
        let floors = (!self.categories.is_empty())
            .then(|| pipeline.add(&VERSION_FLOORS, &[&self.categories]));
        let moment = Some(pipeline.add(&MOMENT, &[]));
        Asked { streams, records, items, events, commits, floors, moment }
    }

    /// The categories of streams that may be created.
    pub(super) fn categories(&self) -> &Vec<String> {
        &self.categories
    }
}

/// Where the answers about each kind of row are found.
#[derive(Debug)]
pub(super) struct Asked {
    streams: Option<Nth>,
    records: Option<Nth>,
    items: Option<Nth>,
    events: Option<Nth>,
    commits: Option<Nth>,
    floors: Option<Nth>,
    moment: Option<Nth>,
}

fn may_create(append: &Append) -> bool {
    matches!(append.expected, ExpectedVersion::Any | ExpectedVersion::NoStream)
}

/// The moment of a judgement, and the floors above which new numbers begin.
#[derive(Debug)]
pub(super) struct Limits {
    now: Timestamp,
    floors: Floors,
    version_floors: HashMap<String, u64>,
}

impl Limits {
    /// Reads the answers to `MOMENT` and `VERSION_FLOORS`.
    pub(super) fn read<R: ReadColumn>(moment: &[R], version_floors: &[R]) -> Result<Self> {
        let meta = moment.first();
        let meta = meta.ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
        Ok(Self {
            now: Timestamp::from_micros(meta.column(0)?)?,
            floors: floors(meta)?,
            version_floors: found(version_floors, version_floor)?,
        })
    }
}

/// The rows as found; and, as the commits are judged in turn, as they will be.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) now: Timestamp,
    floors: Floors,
    version_floors: HashMap<String, u64>,
    streams: HashMap<StreamName, StreamRow>,
    records: HashMap<RecordKey, RecordRow>,
    items: HashMap<ItemRef, Item>,
    events: HashMap<EventId, StoredEvent>,
    commits: HashMap<CommitId, Remembered>,
    /// Rows that exist, and so are updated instead of inserted.
    there: There,
    held: Held,
    /// How many events the batch has added so far.
    added: u64,
}

#[derive(Debug, Default)]
struct There {
    streams: HashSet<String>,
    records: HashSet<String>,
    items: HashSet<ItemRef>,
}

/// Placeholder rows that keep others from creating them.
#[derive(Debug, Default, Clone)]
pub(super) struct Held {
    pub(super) streams: Vec<String>,
    pub(super) records: Vec<String>,
}

impl Loaded {
    pub(super) fn read<R: ReadColumn>(asked: &Asked, answers: &Answers<R>) -> Result<Self> {
        let limits = Limits::read(answers.rows(asked.moment), answers.rows(asked.floors))?;
        Self::within(limits, asked, answers)
    }

    /// The rows, to be judged at this moment and above these floors.
    pub(super) fn within<R: ReadColumn>(
        limits: Limits,
        asked: &Asked,
        answers: &Answers<R>,
    ) -> Result<Self> {
        let (streams, held_streams) = found_or_held(answers.rows(asked.streams), stream)?;
        let (records, held_records) = found_or_held(answers.rows(asked.records), keyed_record)?;
        let items = found(answers.rows(asked.items), keyed_item)?;
        let there = There {
            streams: streams.keys().map(ToString::to_string).collect(),
            records: records.keys().map(ToString::to_string).collect(),
            items: items.keys().cloned().collect(),
        };
        Ok(Self {
            now: limits.now,
            floors: limits.floors,
            version_floors: limits.version_floors,
            streams,
            records,
            items,
            events: found(answers.rows(asked.events), event)?,
            commits: found(answers.rows(asked.commits), remembered)?,
            there,
            held: Held { streams: held_streams, records: held_records },
            added: 0,
        })
    }

    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// Whether a commit relies on the absence of a row that it does not create, and that another
    /// transaction could.
    pub(super) fn could_be_created(&self, batch: &[&Commit]) -> bool {
        let guards = batch.iter().flat_map(|commit| &commit.guards);
        let guarded = guards.into_iter().any(|guard| match guard {
            Guard::Stream { stream, .. } => !self.there.streams.contains(stream.as_str()),
            Guard::Record { key, .. } => !self.there.records.contains(key.as_str()),
        });
        let mut writes = batch.iter().flat_map(|commit| &commit.writes);
        guarded
            || writes.any(|write| {
                matches!(write.change, Change::Delete)
                    && !self.there.records.contains(write.key.as_str())
            })
    }

    /// The floor above which a stream of this name is created.
    pub(super) fn floor_of(&self, stream: &StreamName) -> u64 {
        self.version_floors.get(stream_category(stream.as_str())).copied().unwrap_or_default()
    }

    /// Whether this settlement was made before.
    pub(super) fn was_settled_so(&self, settlement: &Settlement) -> bool {
        self.items.get(&settlement.lease.item).is_some_and(|item| item.was_settled_so(settlement))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values()
    }

    /// Makes the effect of this commit visible to the next commit of the batch, and adds it to the
    /// writes.
    pub(super) fn apply(&mut self, plan: &Plan, writes: &mut Writes) {
        for (name, row) in &plan.streams {
            let there = self.there.streams.contains(name.as_str());
            writes.put_stream(name, *row, there);
            if !there {
                writes.check_floor(name, self.floor_of(name));
            }
            self.streams.insert(name.clone(), *row);
        }
        for event in &plan.events {
            writes.add_event(event);
            self.events.insert(event.id, event.clone());
        }
        for (stream, through) in &plan.trims {
            writes.trim(stream, *through);
        }
        for (key, row) in &plan.records {
            writes.put_record(key, row, self.there.records.contains(key.as_str()));
            self.records.insert(key.clone(), row.clone());
        }
        for item in &plan.items {
            writes.put_item(item.clone(), self.there.items.contains(&item.item));
            self.items.insert(item.item.clone(), item.clone());
        }
        if let Some((id, remembered)) = &plan.remember {
            writes.remember(*id, remembered);
            self.commits.insert(*id, remembered.clone());
        }
        self.added += plan.events.len() as u64;
    }
}

impl ReadRows for Loaded {
    fn remembered(&mut self, id: CommitId) -> Result<Option<Remembered>> {
        Ok(self.commits.get(&id).cloned())
    }

    fn stream(&mut self, name: &StreamName) -> Result<Option<StreamRow>> {
        Ok(self.streams.get(name).copied())
    }

    fn event(&mut self, id: EventId) -> Result<Option<StoredEvent>> {
        Ok(self.events.get(&id).cloned())
    }

    fn record(&mut self, key: &RecordKey) -> Result<Option<RecordRow>> {
        Ok(self.records.get(key).cloned())
    }

    fn item(&mut self, item: &ItemRef) -> Result<Option<Item>> {
        Ok(self.items.get(item).cloned())
    }

    fn last_position(&mut self) -> Result<Position> {
        Ok(provisional(self.added))
    }

    fn floors(&mut self) -> Result<Floors> {
        Ok(self.floors)
    }

    fn version_floor(&mut self, category: &str) -> Result<u64> {
        Ok(self.version_floors.get(category).copied().unwrap_or_default())
    }
}

/// Reads the columns of `MOMENT` after the moment.
fn floors(row: &impl ReadColumn) -> Result<Floors> {
    let (epoch, revision, fence) = (number(row, 1)?, number(row, 2)?, number(row, 3)?);
    Ok(Floors { epoch, revision: revision.max(epoch), fence: fence.max(epoch) })
}

fn found<R, K: std::hash::Hash + Eq, V>(
    rows: &[R],
    read: impl Fn(&R) -> Result<(K, V)>,
) -> Result<HashMap<K, V>> {
    rows.iter().map(read).collect()
}

/// Separates real rows from the names of placeholders. A row begins with its name and number.
fn found_or_held<R: ReadColumn, K: std::hash::Hash + Eq, V>(
    rows: &[R],
    read: impl Fn(&R) -> Result<(K, V)>,
) -> Result<(HashMap<K, V>, Vec<String>)> {
    let (mut found, mut held) = (HashMap::new(), Vec::new());
    for row in rows {
        if number(row, 1)? == 0 {
            held.push(text(row, 0)?.to_owned());
        } else {
            let (key, value) = read(row)?;
            found.insert(key, value);
        }
    }
    Ok((found, held))
}

fn stream(row: &impl ReadColumn) -> Result<(StreamName, StreamRow)> {
    Ok((StreamName::new(text(row, 0)?).map_err(corrupt)?, stream_row(row, 1)?))
}

fn keyed_record(row: &impl ReadColumn) -> Result<(RecordKey, RecordRow)> {
    Ok((RecordKey::new(text(row, 0)?).map_err(corrupt)?, record(row, 0)?))
}

fn keyed_item(row: &impl ReadColumn) -> Result<(ItemRef, Item)> {
    let item = item(row, 0)?;
    Ok((item.item.clone(), item))
}

fn version_floor(row: &impl ReadColumn) -> Result<(String, u64)> {
    Ok((text(row, 0)?.to_owned(), number(row, 1)?))
}

fn event(row: &impl ReadColumn) -> Result<(EventId, StoredEvent)> {
    let stream = StreamName::new(text(row, 0)?).map_err(corrupt)?;
    let event = Alike::default().event(row, 1, stream)?;
    Ok((event.id, event))
}

fn remembered(row: &impl ReadColumn) -> Result<(CommitId, Remembered)> {
    let id: Uuid = row.column(0)?;
    let fingerprint: Uuid = row.column(1)?;
    let committed: Committed = serde_json::from_str(text(row, 2)?).map_err(|e| {
        StoreError::corrupt(format!("the result of commit {id} cannot be read")).caused_by(e)
    })?;
    let at = Timestamp::from_micros(row.column(4)?).map_err(corrupt)?;
    let positions: Vec<i64> = row.column(3)?;
    let positions =
        positions.into_iter().map(|position| Position::new(position as u64)).collect::<Result<_>>();
    let placed = Placed { positions: positions.map_err(corrupt)?, at };
    let mut committed = recall(committed, &placed)?;
    revise(&mut committed, row.column(6)?)?;
    let forget_at = Timestamp::from_micros(row.column(5)?).map_err(corrupt)?;
    Ok((
        CommitId::from_bytes(id.into_bytes()),
        Remembered { fingerprint: fingerprint.into_bytes(), committed, forget_at },
    ))
}

/// Puts revisions that were stored beside a result into it.
fn revise(committed: &mut Committed, revisions: Option<Vec<i64>>) -> Result<()> {
    for (written, revision) in committed.writes.iter_mut().zip(revisions.into_iter().flatten()) {
        written.revision = Some(Revision::new(revision as u64).map_err(corrupt)?);
    }
    Ok(())
}
