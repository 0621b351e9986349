//! Log reads: streams, the feed, heads.

use tidelock_store::plan::{StreamRow, stored_json};
use tidelock_store::{
    Direction, EventId, EventType, FeedPage, FeedQuery, FeedStart, Head, HeadPage, HeadQuery,
    Position, RawJson, Result, StoreError, StoredEvent, StreamName, StreamPage, StreamQuery,
    StreamState, Timestamp, Version, limits,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connect::LazyConnection;
use crate::connect::Parameters;
use crate::error::{corrupt, failed};
use crate::read_column::ReadColumn;
use crate::statement::{Statement, statement};

/// The head of a stream and a page of its events, read at one moment; one row without an event if
/// there is none.
static READ_FORWARD: Statement = statement!(file "read_forward": TEXT, INT8, INT8);
static READ_BACKWARD: Statement = statement!(file "read_backward": TEXT, INT8, INT8);
/// The position up to which the feed can be read. Read before a page, never with it: what is
/// settled now is visible to a later statement.
static SETTLED: Statement = statement!("SELECT settled FROM tidelock.settled()");
/// How far the scan came, over how many events, and those that passed; and, if the database moved
/// and the position was lost, the last valid one. One statement, because a connection may be made,
/// and an epoch begun, between two.
static READ_FEED: Statement = statement!(file "read_feed": INT8, INT8, TEXT, TEXT_ARRAY, INT8);
/// The last position given out, and the last that belongs to an event: an epoch begins with one
/// that no event has.
static LAST_POSITION: Statement = statement!(
    "SELECT base, coalesce((SELECT last_before FROM tidelock.epochs WHERE epoch = base), base)
     FROM tidelock.last()"
);
/// The last position up to this one that stays valid: of an event, of one that was trimmed, or of
/// the end of an epoch. A settled position without an event would be refused once an epoch has
/// begun.
static FEED_END: Statement = statement!(file "feed_end": INT8);
/// The position after which there are this many events up to another; and, if a third was lost when
/// the database moved, the last valid one.
static FEED_BACK: Statement = statement!(file "feed_back": INT8, INT8, INT8);
static NAMED_HEADS: Statement = statement!(":heads WHERE s.name = ANY ($1)": TEXT_ARRAY);
static PREFIXED_HEADS: Statement = statement!(
    ":heads WHERE s.name >= $1 AND s.name <> $2 ORDER BY s.name LIMIT $3": TEXT, TEXT, INT8);

pub(crate) async fn read_stream(
    connection: &LazyConnection,
    query: &StreamQuery,
) -> Result<StreamPage> {
    let (statement, from) = match query.direction {
        Direction::Forward => (&READ_FORWARD, Some(query.from.map_or(1, Version::get) as i64)),
        Direction::Backward => (&READ_BACKWARD, query.from.map(|version| version.get() as i64)),
    };
    // One more than the limit, to know whether there is more.
    let rows = connection
        .read(statement, &[&query.stream.as_str(), &from, &(query.limit as i64 + 1)])
        .await?;
    let Some(first) = rows.first() else {
        return Ok(StreamPage {
            events: Vec::new(),
            state: StreamState::Absent,
            first: None,
            next: None,
        });
    };
    let row = stream_row(first, 0)?;
    let mut alike = Alike::default();
    let mut events = Vec::with_capacity(rows.len());
    for found in rows.iter().filter(|row| has_event(row, 4)) {
        events.push(alike.event(found, 4, query.stream.clone())?);
    }
    let next =
        (events.len() > query.limit).then(|| events.pop()).flatten().map(|event| event.version);
    Ok(StreamPage { events, state: row.state(), first: row.first_left(), next })
}

pub(crate) async fn read_feed(connection: &LazyConnection, query: &FeedQuery) -> Result<FeedPage> {
    let start = start(connection, query.from).await?;
    let mut page = FeedPage { events: Vec::new(), next: start, at_end: query.is_end() };
    if page.at_end {
        return Ok(page);
    }
    let (mut left, mut settled) = (limits::FEED_SCAN, None);
    while left > 0 && !page.at_end && page.events.len() < query.limit {
        let scan = scan_of(query).min(left);
        if !look_on(connection, query, scan, &mut settled, &mut page).await? {
            break;
        }
        left -= scan;
    }
    if page.next == start {
        check_given_out(connection, start).await?;
    }
    Ok(page)
}

/// The position after which a page begins. The page itself checks a position given by the caller.
async fn start(connection: &LazyConnection, from: FeedStart) -> Result<Position> {
    match from {
        FeedStart::After(position) => Ok(position),
        FeedStart::Before(position, events) => {
            check_given_out(connection, position).await?;
            back(connection, position, end(connection).await?, events).await
        }
        FeedStart::Last(events) => {
            let end = end(connection).await?;
            if events == 0 { Ok(end) } else { back(connection, end, end, events).await }
        }
    }
}

/// The end of the feed. Takes two round trips: what is settled at the first is visible at the
/// second.
async fn end(connection: &LazyConnection) -> Result<Position> {
    let settled = settled_of(&connection.read(&SETTLED, &[]).await?)?;
    let rows = connection.read(&FEED_END, &[&(settled.get() as i64)]).await?;
    Position::new(number(first(&rows)?, 0)?)
}

/// The position after which there are this many events up to this one, of a feed that ends there.
async fn back(
    connection: &LazyConnection,
    position: Position,
    end: Position,
    events: usize,
) -> Result<Position> {
    let upto = position.min(end).get() as i64;
    let rows =
        connection.read(&FEED_BACK, &[&(position.get() as i64), &upto, &(events as i64)]).await?;
    let row = first(&rows)?;
    check_not_lost(position, row.try_get(1).map_err(failed)?)?;
    if events == 0 { Ok(position) } else { Position::new(number(row, 0)?) }
}

/// Events to scan per statement: the scan limit, unless each event has to be transferred to be
/// filtered.
fn scan_of(query: &FeedQuery) -> usize {
    let filter = &query.filter;
    match (filter.metadata.is_empty(), filter.stream_prefix.is_empty() && filter.types.is_empty()) {
        (false, _) => limits::PAGE_SIZE,
        (true, true) => query.limit + 1,
        (true, false) => limits::FEED_SCAN,
    }
}

/// Adds matching events, as far as they are settled; returns whether to continue.
async fn look_on(
    connection: &LazyConnection,
    query: &FeedQuery,
    scan: usize,
    settled: &mut Option<Position>,
    page: &mut FeedPage,
) -> Result<bool> {
    let filter = &query.filter;
    let types: Vec<&str> = filter.types.iter().map(EventType::as_str).collect();
    // With a metadata filter, more events may be transferred than match.
    let most = if filter.metadata.is_empty() { query.limit - page.events.len() + 1 } else { scan };
    let (after, scanned, most) = (page.next.get() as i64, scan as i64, most as i64);
    let (settled, rows) = read_settled(
        connection,
        settled,
        &[&after, &scanned, &filter.stream_prefix, &types, &most],
    )
    .await?;
    let first = first(&rows)?;
    check_not_lost(page.next, first.try_get(10).map_err(failed)?)?;
    let seen = number(first, 1)? as usize;
    if seen == 0 {
        page.at_end = true;
        return Ok(false);
    }
    let upto = Position::new(number(first, 0)?)?;
    let more = add_passing(&rows, query, settled, page)?;
    let (full, held) = (page.events.len() == query.limit, upto > settled);
    page.next = match page.events.last() {
        Some(last) if full => last.position,
        last if held => held_at(query, last, page.next).unwrap_or(settled).max(page.next),
        _ => upto,
    };
    page.at_end = if held { !full } else { !more && seen < scan && page.next == upto };
    Ok(!full && !held)
}

/// Adds events that match and are settled, until the page is full; returns whether there are more.
fn add_passing(
    rows: &[Row],
    query: &FeedQuery,
    settled: Position,
    page: &mut FeedPage,
) -> Result<bool> {
    let mut alike = Alike::default();
    for row in rows.iter().filter(|row| has_event(row, 3)) {
        if number(row, 3)? > settled.get() {
            break;
        }
        let (stream, metadata) = (text(row, 2)?, text(row, 8)?);
        if !query.filter.passes(stream, text(row, 6)?, || stored_json(metadata)) {
            continue;
        }
        if page.events.len() == query.limit {
            return Ok(true);
        }
        page.events.push(alike.event(row, 3, StreamName::new(stream)?)?);
    }
    Ok(false)
}

/// Where to continue if the next events are not settled yet: at the last event, if all events were
/// transferred. A settled position without an event would do as well, but counts as lost if the
/// database loses what comes after it.
fn held_at(query: &FeedQuery, last: Option<&StoredEvent>, read: Position) -> Option<Position> {
    let filter = &query.filter;
    let all =
        filter.stream_prefix.is_empty() && filter.types.is_empty() && filter.metadata.is_empty();
    all.then(|| last.map_or(read, |event| event.position))
}

/// Reads on in the feed; before the first time, also the settled position.
async fn read_settled(
    connection: &LazyConnection,
    settled: &mut Option<Position>,
    with: Parameters<'_>,
) -> Result<(Position, Vec<Row>)> {
    if let Some(settled) = *settled {
        return Ok((settled, connection.read(&READ_FEED, with).await?));
    }
    let (looked, rows) = connection.read_in_turn((&SETTLED, &[]), (&READ_FEED, with)).await?;
    let found = settled_of(&looked)?;
    *settled = Some(found);
    Ok((found, rows))
}

fn settled_of(rows: &[Row]) -> Result<Position> {
    Position::new(number(first(rows)?, 0)?)
}

/// The first row of an answer that has at least one.
fn first(rows: &[Row]) -> Result<&Row> {
    rows.first()
        .ok_or_else(|| StoreError::corrupt("the server gave no row where there is always one"))
}

/// Refuses a position that was given out before the database moved, and was lost.
fn check_not_lost(position: Position, last: Option<i64>) -> Result<()> {
    match last {
        Some(last) => Err(StoreError::rewound(position, Position::new(last as u64)?)),
        None => Ok(()),
    }
}

/// Refuses a position that was not given out yet: a reader that continued from it would miss what
/// comes before it.
async fn check_given_out(connection: &LazyConnection, position: Position) -> Result<()> {
    let rows = connection.read(&LAST_POSITION, &[]).await?;
    let row = first(&rows)?;
    let (given_out, last) = (Position::new(number(row, 0)?)?, Position::new(number(row, 1)?)?);
    if position > given_out { Err(StoreError::rewound(position, last)) } else { Ok(()) }
}

pub(crate) async fn heads(connection: &LazyConnection, query: HeadQuery) -> Result<HeadPage> {
    match query {
        HeadQuery::Named(names) => named_heads(connection, names).await,
        HeadQuery::Prefix { prefix, after, limit } => {
            prefixed_heads(connection, &prefix, after.as_ref(), limit).await
        }
    }
}

async fn named_heads(connection: &LazyConnection, names: Vec<StreamName>) -> Result<HeadPage> {
    let asked: Vec<&str> = names.iter().map(StreamName::as_str).collect();
    let rows = connection.read(&NAMED_HEADS, &[&asked]).await?;
    let found = rows.iter().map(head).collect::<Result<Vec<_>>>()?;
    let found: std::collections::HashMap<StreamName, Head> =
        found.into_iter().map(|head| (head.stream.clone(), head)).collect();
    let heads = names.into_iter().map(|stream| match found.get(&stream) {
        Some(head) => head.clone(),
        None => Head { stream, state: StreamState::Absent, count: 0, last: None },
    });
    Ok(HeadPage { heads: heads.collect(), next: None })
}

async fn prefixed_heads(
    connection: &LazyConnection,
    prefix: &str,
    after: Option<&StreamName>,
    limit: usize,
) -> Result<HeadPage> {
    let after = after.map_or("", StreamName::as_str);
    let from = prefix.max(after);
    let rows = connection.read(&PREFIXED_HEADS, &[&from, &after, &(limit as i64 + 1)]).await?;
    let mut heads = rows.iter().map(head).collect::<Result<Vec<_>>>()?;
    heads.retain(|head| head.stream.as_str().starts_with(prefix));
    let more = heads.len() > limit;
    heads.truncate(limit);
    let next = heads.last().filter(|_| more).map(|head| head.stream.clone());
    Ok(HeadPage { heads, next })
}

fn head(row: &Row) -> Result<Head> {
    let stream = StreamName::new(text(row, 0)?).map_err(corrupt)?;
    let head = stream_row(row, 1)?;
    let last =
        has_event(row, 5).then(|| Alike::default().event(row, 5, stream.clone())).transpose()?;
    Ok(Head { stream, state: head.state(), count: head.count(), last })
}

/// Reads version, first, closed and `forget_at`, from this column on.
pub(crate) fn stream_row(row: &impl ReadColumn, from: usize) -> Result<StreamRow> {
    Ok(StreamRow {
        version: Version::new(number(row, from)?).map_err(corrupt)?,
        first: Version::new(number(row, from + 1)?).map_err(corrupt)?,
        closed: row.column(from + 2)?,
        forget_at: moment(row, from + 3)?,
    })
}

fn has_event(row: &Row, from: usize) -> bool {
    row.try_get::<_, Option<i64>>(from).is_ok_and(|position| position.is_some())
}

/// Consecutive events often have the same type and metadata; then they share them.
#[derive(Default)]
pub(crate) struct Alike {
    last: Option<(EventType, RawJson)>,
}

impl Alike {
    /// Reads `:event_columns`, from this one on.
    pub(crate) fn event(
        &mut self,
        row: &impl ReadColumn,
        from: usize,
        stream: StreamName,
    ) -> Result<StoredEvent> {
        self.read_event(row, from, stream).map_err(corrupt)
    }

    fn read_event(
        &mut self,
        row: &impl ReadColumn,
        from: usize,
        stream: StreamName,
    ) -> Result<StoredEvent> {
        let (event_type, metadata) = self.share(text(row, from + 3)?, text(row, from + 5)?)?;
        let id: Uuid = row.column(from + 2)?;
        Ok(StoredEvent {
            id: EventId::from_bytes(id.into_bytes()),
            stream,
            version: Version::new(number(row, from + 1)?)?,
            position: Position::new(number(row, from)?)?,
            event_type,
            payload: stored_json(text(row, from + 4)?),
            metadata,
            recorded_at: Timestamp::from_micros(row.column(from + 6)?)?,
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
pub(crate) fn number(row: &impl ReadColumn, column: usize) -> Result<u64> {
    let number: i64 = row.column(column)?;
    u64::try_from(number)
        .map_err(|_| StoreError::corrupt(format!("a stored number is negative: {number}")))
}

/// Borrowed text.
pub(crate) fn text(row: &impl ReadColumn, column: usize) -> Result<&str> {
    row.column(column)
}

/// An optional moment.
pub(crate) fn moment(row: &impl ReadColumn, column: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.column(column)?;
    micros.map(Timestamp::from_micros).transpose()
}
