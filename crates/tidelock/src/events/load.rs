//! Folding a stream: from a snapshot or from the start, to its end or to an earlier point.

use tidelock_store::{
    Position, Store, StoredEvent, StreamName, StreamPage, StreamQuery, StreamState, Timestamp,
    Version,
};

use super::aggregate::Aggregate;
use super::error::LoadError;
use super::folded::Folded;
use super::personal;
use crate::recorded::decode;

/// Where the fold ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    End,
    Version(Version),
    Position(Position),
    Time(Timestamp),
}

impl Until {
    /// Whether an event at this point is included.
    fn includes(self, version: Version, last: Option<(Position, Timestamp)>) -> bool {
        match self {
            Self::End => true,
            Self::Version(until) => version <= until,
            Self::Position(until) => last.is_some_and(|(position, _)| position <= until),
            Self::Time(until) => last.is_some_and(|(_, time)| time <= until),
        }
    }

    fn includes_event(self, event: &StoredEvent) -> bool {
        self.includes(event.version, Some((event.position, event.recorded_at)))
    }
}

/// Folds a stream, from its snapshot if one is usable.
pub(crate) async fn load<A: Aggregate>(
    store: &(impl Store + ?Sized),
    stream: &StreamName,
    until: Until,
) -> Result<Folded<A>, LoadError> {
    let mut before = None;
    for _ in 0..ATTEMPTS {
        let snapshot = A::snapshots().find(store, stream).await?;
        let version = snapshot.as_ref().and_then(|snapshot: &Folded<A>| snapshot.version);
        if let Some(folded) = load_from(store, stream, snapshot, until).await? {
            return Ok(folded);
        }
        // The events may have been trimmed after the snapshot was read; then there is a newer
        // snapshot.
        if before.replace(version) == Some(version) {
            break;
        }
    }
    Err(trimmed(store, stream).await)
}

/// Number of attempts to load a state while its events are being trimmed.
const ATTEMPTS: usize = 8;

/// Folds from the snapshot, or else from the first event. Returns `None` if the stream continues
/// from neither.
async fn load_from<A: Aggregate>(
    store: &(impl Store + ?Sized),
    stream: &StreamName,
    snapshot: Option<Folded<A>>,
    until: Until,
) -> Result<Option<Folded<A>>, LoadError> {
    let fits =
        |snapshot: &Folded<A>| snapshot.version.is_some_and(|v| until.includes(v, snapshot.last));
    if let Some(snapshot) = snapshot.filter(fits)
        // A snapshot that the stream does not continue belongs to an earlier stream of this name.
        && let Some(folded) = fold_from(store, stream, snapshot, until, ignore).await?
    {
        return Ok(Some(folded));
    }
    fold_from(store, stream, Folded::default(), until, ignore).await
}

fn ignore<E>(_: Version, _: Vec<E>) {}

async fn trimmed(store: &(impl Store + ?Sized), stream: &StreamName) -> LoadError {
    match store.read_stream(StreamQuery::forward(stream).limit(1)).await {
        Err(error) => error.into(),
        Ok(StreamPage { state: StreamState::Closed(version), first: None, .. }) => {
            LoadError::Closed { stream: stream.clone(), version }
        }
        Ok(page) => {
            let gone = page.state.version().map_or(Version::FIRST, |version| version.plus(1));
            LoadError::Trimmed { stream: stream.clone(), first: page.first.unwrap_or(gone) }
        }
    }
}

/// Folds the events after a state. Returns `None` if the stream does not continue where the state
/// ends. `seen` is called with the events of each folded page and the version of the first.
pub(crate) async fn fold_from<A: Aggregate>(
    store: &(impl Store + ?Sized),
    stream: &StreamName,
    mut folded: Folded<A>,
    until: Until,
    mut seen: impl FnMut(Version, Vec<A::Event>),
) -> Result<Option<Folded<A>>, LoadError> {
    loop {
        let from = folded.next();
        let page = store.read_stream(StreamQuery::forward(stream).from(from)).await?;
        if !follows(&page, &folded) {
            return Ok(None);
        }
        let StreamPage { mut events, state, next, .. } = page;
        // Events beyond the end are not decoded.
        let wanted = events.iter().take_while(|event| until.includes_event(event)).count();
        let is_past = wanted < events.len();
        events.truncate(wanted);
        let decoded = read::<A>(store, events).await?;
        folded.personal |= decoded.personal;
        for (stored, event) in decoded.stored.iter().zip(&decoded.events) {
            folded.apply(stored, event);
        }
        seen(from, decoded.events);
        if is_past {
            return Ok(Some(folded));
        }
        if next.is_none() {
            return reached(folded, stream, state, until).map(Some);
        }
    }
}

/// Whether a page continues where the state ends.
fn follows<A: Aggregate>(page: &StreamPage, folded: &Folded<A>) -> bool {
    match page.events.first() {
        Some(event) => event.version == folded.next(),
        None => page.state.version() == folded.version,
    }
}

fn reached<A>(
    folded: Folded<A>,
    stream: &StreamName,
    found: StreamState,
    until: Until,
) -> Result<Folded<A>, LoadError> {
    match until {
        Until::Version(asked) if folded.version.is_none_or(|version| version < asked) => {
            Err(LoadError::NotReached { stream: stream.clone(), asked, found })
        }
        _ => Ok(folded),
    }
}

/// Events as stored and as decoded.
struct Decoded<E> {
    stored: Vec<StoredEvent>,
    events: Vec<E>,
    personal: bool,
}

/// Decodes events, with their personal data.
async fn read<A: Aggregate>(
    store: &(impl Store + ?Sized),
    mut events: Vec<StoredEvent>,
) -> Result<Decoded<A::Event>, LoadError> {
    let personal = personal::join(store, &mut events).await?;
    let typed = events.iter().map(decode).collect::<Result<_, _>>()?;
    Ok(Decoded { stored: events, events: typed, personal })
}
