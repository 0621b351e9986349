//! Reference model of streams and the feed: one list of events.

use std::collections::BTreeMap;

use tidelock_store::{
    AfterAppend, AfterTrim, Append, Appended, Commit, Direction, EventId, ExpectedVersion,
    FeedQuery, FeedStart, Head, HeadPage, HeadQuery, Position, StoredEvent, StreamName, StreamPage,
    StreamQuery, StreamState, Timestamp, Trim, Version, ViolationReason,
};

use super::moment;

#[derive(Default)]
pub(super) struct Log {
    /// Every remaining event, by position.
    events: Vec<StoredEvent>,
    /// How many events there ever were.
    given: u64,
    streams: BTreeMap<StreamName, Stream>,
    /// The names of forgotten streams, and the versions that they had.
    forgotten: Vec<(StreamName, u64)>,
}

/// A stream that exists.
struct Stream {
    version: u64,
    closed: bool,
    forget_at: Option<Timestamp>,
}

impl Log {
    fn event(&self, id: EventId) -> Option<&StoredEvent> {
        self.events.iter().find(|event| event.id == id)
    }

    fn state(&self, name: &StreamName) -> StreamState {
        match self.streams.get(name) {
            None => StreamState::Absent,
            Some(Stream { version, closed: false, .. }) => {
                StreamState::Open(Version::new(*version).unwrap())
            }
            Some(Stream { version, closed: true, .. }) => {
                StreamState::Closed(Version::new(*version).unwrap())
            }
        }
    }

    /// The events of this append, if it was made before.
    fn earlier(&self, append: &Append) -> Option<Vec<&StoredEvent>> {
        let found: Vec<&StoredEvent> =
            append.events.iter().filter_map(|event| self.event(event.id)).collect();
        let same = found.iter().zip(&append.events).all(|(event, new)| {
            event.stream == append.stream
                && event.event_type == new.event_type
                && event.payload == new.payload
                && event.metadata == new.metadata
        });
        let first = found.first()?.version.get();
        let in_a_row = (first..).zip(&found).all(|(version, event)| event.version.get() == version);
        (found.len() == append.events.len() && same && in_a_row).then_some(found)
    }

    /// Whether an event's id was used before, for something else.
    pub(super) fn misuses_an_id(&self, append: &Append) -> bool {
        let known = append.events.iter().any(|event| self.event(event.id).is_some());
        let closes = append.then == AfterAppend::Close;
        let closed = self.streams.get(&append.stream).is_some_and(|stream| stream.closed);
        known && (self.earlier(append).is_none() || closes && !closed)
    }

    pub(super) fn judge(
        &self,
        name: &StreamName,
        expected: ExpectedVersion,
    ) -> Option<ViolationReason> {
        let found = self.state(name);
        let version = self.streams.get(name).map(|stream| stream.version);
        let holds = match expected {
            ExpectedVersion::Any => true,
            ExpectedVersion::NoStream => version.is_none(),
            ExpectedVersion::Exists => version.is_some(),
            ExpectedVersion::Exact(wanted) => version == Some(wanted.get()),
        };
        (!holds).then(|| ViolationReason::Stream { stream: name.clone(), expected, found })
    }

    pub(super) fn judge_append(&self, append: &Append, commit: &Commit) -> Option<ViolationReason> {
        if self.earlier(append).is_some() {
            return None;
        }
        let (stream, expected, found) =
            (append.stream.clone(), append.expected, self.state(&append.stream));
        match found {
            StreamState::Closed(version) if !reopens(&stream, commit) => {
                Some(ViolationReason::Closed { stream, version })
            }
            _ => self.judge(&stream, expected).or_else(|| {
                // There is no stream to close.
                let nothing = found == StreamState::Absent && append.events.is_empty();
                let expected = ExpectedVersion::Exists;
                nothing.then_some(ViolationReason::Stream { stream, expected, found })
            }),
        }
    }

    pub(super) fn judge_trim(&self, trim: &Trim, commit: &Commit) -> Option<ViolationReason> {
        let mut appends = commit.appends.iter().filter(|append| append.stream == trim.stream);
        let closing = appends
            .any(|append| append.then == AfterAppend::Close && self.earlier(append).is_none());
        let fits = self.streams.get(&trim.stream).is_some_and(|stream| {
            (stream.closed || closing) && trim.through.get() <= stream.version
        });
        let (stream, through, found) =
            (trim.stream.clone(), trim.through, self.state(&trim.stream));
        (!fits).then_some(ViolationReason::Untrimmable { stream, through, found })
    }

    /// Applies an accepted commit to the streams.
    pub(super) fn write(&mut self, commit: &Commit, now: Timestamp) -> Vec<Appended> {
        let appends: Vec<_> =
            commit.appends.iter().map(|append| self.append(append, commit, now)).collect();
        for trim in &commit.trims {
            self.trim(
                trim,
                appends.iter().any(|done| done.stream == trim.stream && !done.replayed),
                now,
            );
        }
        appends
    }

    fn append(&mut self, append: &Append, commit: &Commit, now: Timestamp) -> Appended {
        let name = append.stream.clone();
        if let Some(earlier) = self.earlier(append) {
            let (first, last) = (earlier[0], earlier[earlier.len() - 1]);
            let positions = Some((first.position, last.position));
            return Appended { stream: name, version: last.version, positions, replayed: true };
        }
        let floor = self.floor(&name);
        let new = Stream { version: floor, closed: false, forget_at: None };
        let stream = self.streams.entry(name.clone()).or_insert(new);
        if !append.events.is_empty() {
            stream.forget_at = None;
        }
        // What was closed is reopened before the append; what was open is reopened after it is
        // closed.
        let closes = append.then == AfterAppend::Close;
        stream.closed = if stream.closed { closes } else { closes && !reopens(&name, commit) };
        let before = self.given;
        for event in &append.events {
            stream.version += 1;
            self.given += 1;
            self.events.push(StoredEvent {
                id: event.id,
                stream: name.clone(),
                version: Version::new(stream.version).unwrap(),
                position: Position::new(self.given).unwrap(),
                event_type: event.event_type.clone(),
                payload: event.payload.clone(),
                metadata: event.metadata.clone(),
                recorded_at: now,
            });
        }
        let positions = (self.given > before)
            .then(|| (Position::new(before + 1).unwrap(), Position::new(self.given).unwrap()));
        let version = Version::new(stream.version).unwrap();
        Appended { stream: name, version, positions, replayed: false }
    }

    /// The highest version of a forgotten stream whose name is alike up to its first slash.
    fn floor(&self, name: &StreamName) -> u64 {
        let category = |name: &StreamName| match name.as_str().split_once('/') {
            Some((category, _)) => (category.to_owned(), true),
            None => (name.as_str().to_owned(), false),
        };
        let alike =
            self.forgotten.iter().filter(|(forgotten, _)| category(forgotten) == category(name));
        alike.map(|(_, version)| *version).max().unwrap_or_default()
    }

    /// Forgets the streams whose time has passed.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let gone = |stream: &Stream| stream.forget_at.is_some_and(|moment| moment <= now);
        let forgotten = self.streams.iter().filter(|(_, stream)| gone(stream));
        self.forgotten.extend(forgotten.map(|(name, stream)| (name.clone(), stream.version)));
        self.streams.retain(|_, stream| !gone(stream));
    }

    fn trim(&mut self, trim: &Trim, appended: bool, now: Timestamp) {
        let empty =
            !self.events.iter().any(|e| e.stream == trim.stream && e.version > trim.through);
        self.events.retain(|event| event.stream != trim.stream || event.version > trim.through);
        let stream =
            self.streams.get_mut(&trim.stream).expect("only a stream that exists is trimmed");
        // An append to the same stream has decided this already.
        if !appended {
            stream.closed = trim.then == AfterTrim::StayClosed;
        }
        stream.forget_at = match trim.then {
            AfterTrim::Forget(when) if empty => Some(moment(when, now)),
            _ => None,
        };
    }

    /// The remaining events of a stream, oldest first.
    fn left<'a>(
        &'a self,
        name: &'a StreamName,
    ) -> impl DoubleEndedIterator<Item = &'a StoredEvent> {
        self.events.iter().filter(move |event| event.stream == *name)
    }

    pub(super) fn read_stream(&self, query: &StreamQuery) -> StreamPage {
        let mut wanted: Vec<StoredEvent> = self.left(&query.stream).cloned().collect();
        let first = wanted.first().map(|event| event.version);
        if query.direction == Direction::Backward {
            wanted.reverse();
        }
        wanted.retain(|event| match (query.from, query.direction) {
            (None, _) => true,
            (Some(from), Direction::Forward) => event.version >= from,
            (Some(from), Direction::Backward) => event.version <= from,
        });
        let next = wanted.get(query.limit).map(|event| event.version);
        wanted.truncate(query.limit);
        StreamPage { events: wanted, state: self.state(&query.stream), first, next }
    }

    pub(super) fn read_feed(&self, query: &FeedQuery) -> Vec<StoredEvent> {
        let start = match query.from {
            FeedStart::After(position) => position,
            FeedStart::Before(position, count) => self.back(position, count),
            FeedStart::Last(count) => self.back(Position::START.plus(self.given), count),
        };
        let passes = |event: &&StoredEvent| {
            event.position > start && event.stream.as_str().starts_with(&query.filter.stream_prefix)
        };
        self.events.iter().filter(passes).cloned().collect()
    }

    /// The position after which there are this many of the events up to this one.
    fn back(&self, position: Position, count: usize) -> Position {
        let upto: Vec<_> =
            self.events.iter().map(|e| e.position).filter(|p| *p <= position).collect();
        match (count, upto.len().checked_sub(count + 1)) {
            (0, _) => position,
            (_, Some(at)) => upto[at],
            (_, None) => Position::START,
        }
    }

    pub(super) fn heads(&self, query: &HeadQuery) -> HeadPage {
        match query {
            HeadQuery::Named(names) => {
                HeadPage { heads: names.iter().map(|name| self.head(name)).collect(), next: None }
            }
            HeadQuery::Prefix { prefix, limit, .. } => {
                let names: Vec<_> =
                    self.streams.keys().filter(|name| name.as_str().starts_with(prefix)).collect();
                let heads: Vec<Head> =
                    names.iter().take(*limit).map(|name| self.head(name)).collect();
                let next =
                    heads.last().filter(|_| names.len() > *limit).map(|head| head.stream.clone());
                HeadPage { heads, next }
            }
        }
    }

    fn head(&self, name: &StreamName) -> Head {
        let (count, last) = (self.left(name).count() as u64, self.left(name).next_back().cloned());
        Head { stream: name.clone(), state: self.state(name), count, last }
    }
}

/// Whether a trim of the same commit reopens this stream.
fn reopens(stream: &StreamName, commit: &Commit) -> bool {
    commit.trims.iter().any(|trim| trim.stream == *stream && trim.then != AfterTrim::StayClosed)
}
