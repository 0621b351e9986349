//! Commits of events, each caller on its own stream.

use std::sync::Arc;

use tidelock::ExpectedVersion;
use tidelock::store::{Commit, Committed, EventType, NewEvent, RawJson, Store, StreamName};

use super::{Bench, Case, committed};
use crate::baseline;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::rows;

pub(super) async fn measure(
    bench: &Bench<'_>,
    case: &Case,
    events: usize,
) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let callers = writers(&fixture.store, 0, case.callers, events)?;
    let comparison =
        Comparison::of(callers).against(baseline::commits(&fixture, case.baseline, events).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

/// This many callers; the first one's stream has the number `first`, the next one's the next.
pub(crate) fn writers(
    store: &Arc<dyn Store>,
    first: usize,
    callers: usize,
    events: usize,
) -> Result<Callers<Writer>, Failure> {
    let numbers = first..first + callers;
    Ok(Callers(numbers.map(|n| Writer::new(store.clone(), n, events)).collect::<Result<_, _>>()?))
}

pub(crate) struct Writer {
    store: Arc<dyn Store>,
    stream: StreamName,
    expected: ExpectedVersion,
    event_type: EventType,
    payload: RawJson,
    events: usize,
}

impl Writer {
    fn new(store: Arc<dyn Store>, number: usize, events: usize) -> Result<Self, Failure> {
        Ok(Self {
            store,
            stream: StreamName::new(rows::stream_name(number))?,
            expected: ExpectedVersion::NoStream,
            event_type: EventType::new(rows::EVENT_TYPE)?,
            payload: RawJson::parse(rows::payload())?,
            events,
        })
    }
}

impl Caller for Writer {
    async fn call(&mut self) -> Result<u64, Failure> {
        let event = || NewEvent::new(self.event_type.clone(), self.payload.clone());
        let events = std::iter::repeat_with(event).take(self.events);
        let commit = Commit::new().append(&self.stream, self.expected, events);
        let committed = committed(self.store.commit(commit).await?)?;
        self.expected = after(&committed)?;
        Ok(1)
    }
}

/// The expectation of the next commit to the same stream.
pub(super) fn after(committed: &Committed) -> Result<ExpectedVersion, Failure> {
    let appended = committed.appends.first();
    let appended =
        appended.ok_or_else(|| Failure::Answer("a commit without its append".to_owned()))?;
    Ok(ExpectedVersion::Exact(appended.version))
}
