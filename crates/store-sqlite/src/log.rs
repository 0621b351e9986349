//! Log reads: streams, the feed, heads.

use rusqlite::{Connection, Row, params};
use tidelock_store::plan::{StreamRow, stored_json};
use tidelock_store::{
    Direction, EventId, EventType, FeedPage, FeedQuery, FeedStart, Head, HeadPage, HeadQuery,
    Position, RawJson, Result, StoreError, StoredEvent, StreamName, StreamPage, StreamQuery,
    StreamState, Timestamp, Version, limits,
};

use crate::error::{corrupt, failed};
use crate::reader::Reader;

/// The columns of an event, in the order in which [`event`] reads them.
macro_rules! event_columns {
    () => {
        "position, stream, version, id, type, payload, metadata, recorded_at"
    };
}
pub(crate) use event_columns;

const FORWARD: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM tidelock_events WHERE stream = ?1 AND version >= ?2 ORDER BY version LIMIT ?3"
);
const BACKWARD: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM tidelock_events WHERE stream = ?1 AND version <= ?2 ORDER BY version DESC LIMIT ?3"
);
const FEED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM tidelock_events WHERE position > ?1 ORDER BY position LIMIT ?2"
);
const BACK: &str = "SELECT position FROM tidelock_events WHERE position <= ?1 ORDER BY position DESC LIMIT 1 OFFSET ?2";

/// SQLite seeks by one lower bound only and scans from there, so it is given the higher of prefix
/// and last name.
pub(crate) const NAMES_AFTER: &str =
    "SELECT name FROM tidelock_streams WHERE name >= ?1 AND name <> ?2 ORDER BY name LIMIT ?3";

pub(crate) fn read_stream(reader: &mut Reader, query: &StreamQuery) -> Result<StreamPage> {
    let Some((id, row)) = find_stream(&reader.connection, &query.stream)? else {
        return Ok(StreamPage {
            events: Vec::new(),
            state: StreamState::Absent,
            first: None,
            next: None,
        });
    };
    let (sql, from) = match query.direction {
        Direction::Forward => (FORWARD, query.from.map_or(1, Version::get)),
        Direction::Backward => (BACKWARD, query.from.unwrap_or(row.version).get()),
    };
    let mut statement = reader.connection.prepare_cached(sql).map_err(failed)?;
    // One more than the limit, to know whether there is more.
    let mut rows =
        statement.query(params![id, from as i64, query.limit as i64 + 1]).map_err(failed)?;
    let (mut events, mut alike) = (Vec::new(), Alike::default());
    while let Some(row) = rows.next().map_err(failed)? {
        events.push(alike.event(row, query.stream.clone())?);
    }
    let next =
        (events.len() > query.limit).then(|| events.pop()).flatten().map(|event| event.version);
    Ok(StreamPage { events, state: row.state(), first: row.first_left(), next })
}

pub(crate) fn read_feed(reader: &mut Reader, query: &FeedQuery) -> Result<FeedPage> {
    let Reader { connection, names } = reader;
    let start = start(connection, query.from)?;
    let mut page = FeedPage { events: Vec::new(), next: start, at_end: query.is_end() };
    if page.at_end {
        return Ok(page);
    }
    names.keep_up(check_kept(connection, start)?);
    let mut alike = Alike::default();
    let mut statement = connection.prepare_cached(FEED).map_err(failed)?;
    // One more than the scan limit, to know whether the feed ends here.
    let mut rows = statement
        .query(params![start.get() as i64, limits::FEED_SCAN as i64 + 1])
        .map_err(failed)?;
    for seen in 0.. {
        let Some(row) = rows.next().map_err(failed)? else {
            page.at_end = true;
            break;
        };
        if page.events.len() == query.limit || seen == limits::FEED_SCAN {
            break;
        }
        let stream = names.get(connection, row.get(1).map_err(failed)?)?;
        page.next = Position::new(number(row, 0)?)?;
        let event_type = text(row, 4)?;
        if query
            .filter
            .passes(stream.as_str(), event_type, || stored_json(text(row, 6).unwrap_or("{}")))
        {
            page.events.push(alike.event(row, stream)?);
        }
    }
    if page.next == start {
        check_given_out(connection, start)?;
    }
    Ok(page)
}

/// The position after which a page begins. The page itself checks a position given by the caller.
fn start(connection: &Connection, from: FeedStart) -> Result<Position> {
    match from {
        FeedStart::After(position) => Ok(position),
        FeedStart::Before(position, events) => {
            check_kept(connection, position)?;
            check_given_out(connection, position)?;
            back(connection, position, events)
        }
        FeedStart::Last(events) => back(connection, end(connection)?, events),
    }
}

/// The end of the feed. The number of an epoch without an event would be refused once another epoch
/// has begun.
fn end(connection: &Connection) -> Result<Position> {
    let last = last_position(connection)?;
    Ok(last_before(connection, last)?.unwrap_or(last))
}

/// The last position from before the epoch with this number, if there is such an epoch.
fn last_before(connection: &Connection, epoch: Position) -> Result<Option<Position>> {
    let sql = "SELECT last_before FROM tidelock_epochs WHERE epoch = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([epoch.get() as i64]).map_err(failed)?;
    rows.next().map_err(failed)?.map(|row| Position::new(number(row, 0)?)).transpose()
}

/// The position this many events before.
fn back(connection: &Connection, position: Position, events: usize) -> Result<Position> {
    if events == 0 {
        return Ok(position);
    }
    let mut statement = connection.prepare_cached(BACK).map_err(failed)?;
    let mut rows =
        statement.query(params![position.get() as i64, events as i64]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => Position::new(number(row, 0)?),
        None => Ok(Position::START),
    }
}

/// Refuses a position that was given out and was lost when an epoch began: it now belongs to
/// another event. Returns how many streams were forgotten so far.
fn check_kept(connection: &Connection, position: Position) -> Result<u64> {
    let sql = "SELECT streams_forgotten,
                      (SELECT min(last_before) FROM tidelock_epochs WHERE epoch > ?1 AND last_before < ?1)
               FROM tidelock_meta";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([position.get() as i64]).map_err(failed)?;
    let row = rows.next().map_err(failed)?.ok_or_else(no_meta)?;
    match row.get::<_, Option<i64>>(1).map_err(failed)? {
        Some(last) => Err(StoreError::rewound(position, Position::new(last as u64)?)),
        None => number(row, 0),
    }
}

/// Refuses a position that was not given out yet: a reader that continued from it would miss what
/// comes before it.
fn check_given_out(connection: &Connection, position: Position) -> Result<()> {
    let base = last_position(connection)?;
    if position <= base {
        return Ok(());
    }
    // An epoch begins with a position that no event has.
    Err(StoreError::rewound(position, last_before(connection, base)?.unwrap_or(base)))
}

/// The last position given out.
pub(crate) fn last_position(connection: &Connection) -> Result<Position> {
    let sql = "SELECT max(position_floor, coalesce((SELECT max(position) FROM tidelock_events), 0))
               FROM tidelock_meta";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    Position::new(number(rows.next().map_err(failed)?.ok_or_else(no_meta)?, 0)?)
}

pub(crate) fn no_meta() -> StoreError {
    StoreError::corrupt("the table tidelock_meta has no row")
}

pub(crate) fn heads(reader: &mut Reader, query: HeadQuery) -> Result<HeadPage> {
    match query {
        HeadQuery::Named(names) => {
            let heads = names
                .into_iter()
                .map(|name| head(&reader.connection, name))
                .collect::<Result<_>>()?;
            Ok(HeadPage { heads, next: None })
        }
        HeadQuery::Prefix { prefix, after, limit } => {
            let mut names = names_after(&reader.connection, &prefix, after.as_ref(), limit + 1)?;
            let more = names.len() > limit;
            names.truncate(limit);
            let next = names.last().filter(|_| more).cloned();
            let heads = names
                .into_iter()
                .map(|name| head(&reader.connection, name))
                .collect::<Result<_>>()?;
            Ok(HeadPage { heads, next })
        }
    }
}

fn names_after(
    connection: &Connection,
    prefix: &str,
    after: Option<&StreamName>,
    limit: usize,
) -> Result<Vec<StreamName>> {
    let mut statement = connection.prepare_cached(NAMES_AFTER).map_err(failed)?;
    let after = after.map_or("", StreamName::as_str);
    let from = prefix.max(after);
    let rows =
        statement.query_map(params![from, after, limit as i64], |row| row.get::<_, String>(0));
    let names = rows.map_err(failed)?.map(|name| StreamName::new(name.map_err(failed)?));
    names
        .take_while(|name| name.as_ref().map_or(true, |name| name.as_str().starts_with(prefix)))
        .collect()
}

fn head(connection: &Connection, stream: StreamName) -> Result<Head> {
    let Some((id, row)) = find_stream(connection, &stream)? else {
        return Ok(Head { stream, state: StreamState::Absent, count: 0, last: None });
    };
    let mut statement = connection.prepare_cached(BACKWARD).map_err(failed)?;
    let mut rows = statement.query(params![id, row.version.get() as i64, 1]).map_err(failed)?;
    let last = rows.next().map_err(failed)?.map(|row| event(row, stream.clone())).transpose()?;
    Ok(Head { stream, state: row.state(), count: row.count(), last })
}

/// A stream's row id and row.
pub(crate) fn find_stream(
    connection: &Connection,
    name: &StreamName,
) -> Result<Option<(i64, StreamRow)>> {
    let sql = "SELECT id, version, first, closed, forget_at FROM tidelock_streams WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([name.as_str()]).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
    let stream = StreamRow {
        version: Version::new(number(row, 1)?).map_err(corrupt)?,
        first: Version::new(number(row, 2)?).map_err(corrupt)?,
        closed: number(row, 3)? == 1,
        forget_at: moment(row, 4)?,
    };
    Ok(Some((row.get(0).map_err(failed)?, stream)))
}

/// Reads the columns of `event_columns!`.
pub(crate) fn event(row: &Row<'_>, stream: StreamName) -> Result<StoredEvent> {
    Alike::default().event(row, stream)
}

/// Consecutive events often have the same type and metadata; then they share them.
#[derive(Default)]
struct Alike {
    last: Option<(EventType, RawJson)>,
}

impl Alike {
    fn event(&mut self, row: &Row<'_>, stream: StreamName) -> Result<StoredEvent> {
        self.read_event(row, stream).map_err(corrupt)
    }

    fn read_event(&mut self, row: &Row<'_>, stream: StreamName) -> Result<StoredEvent> {
        let (event_type, metadata) = self.share(text(row, 4)?, text(row, 6)?)?;
        Ok(StoredEvent {
            id: EventId::from_bytes(row.get(3).map_err(failed)?),
            stream,
            version: Version::new(number(row, 2)?)?,
            position: Position::new(number(row, 0)?)?,
            event_type,
            payload: stored_json(text(row, 5)?),
            metadata,
            recorded_at: Timestamp::from_micros(row.get(7).map_err(failed)?)?,
        })
    }

    fn share(&mut self, event_type: &str, metadata: &str) -> Result<(EventType, RawJson)> {
        let (known_type, known_metadata) = self.last.take().unzip();
        let event_type = match known_type.filter(|known| known.as_str() == event_type) {
            Some(known) => known,
            None => EventType::new(event_type)?,
        };
        let metadata = match known_metadata.filter(|known| known.as_str() == metadata) {
            Some(known) => known,
            None => stored_json(metadata),
        };
        self.last = Some((event_type.clone(), metadata.clone()));
        Ok((event_type, metadata))
    }
}

/// A number written by the store, never negative.
pub(crate) fn number(row: &Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column).map_err(failed)?;
    u64::try_from(number)
        .map_err(|_| StoreError::corrupt(format!("a stored number is negative: {number}")))
}

/// An optional moment.
pub(crate) fn moment(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column).map_err(failed)?;
    micros.map(Timestamp::from_micros).transpose()
}

/// Borrowed text.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str> {
    let value = row.get_ref(column).map_err(failed)?;
    value.as_str().map_err(|e| StoreError::corrupt("a stored text is not text").caused_by(e))
}
