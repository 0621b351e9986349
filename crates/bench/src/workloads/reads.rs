//! Reads of the log: one stream at a time, and the feed.
//!
//! Both run on the same log: 1,000 streams of 100 events, which grew concurrently.

use std::sync::Arc;

use tidelock::ExpectedVersion;
use tidelock::store::{
    Commit, EventType, FeedQuery, NewEvent, Position, RawJson, Store, StreamName, StreamQuery,
};

use super::{Bench, Case, committed};
use crate::baseline;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::progress::Progress;
use crate::rows;

const STREAMS: usize = 1_000;
const EVENTS_EACH: usize = 100;
const PAGE: usize = 1_000;

pub(super) async fn measure_load(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture =
        Fixture::filled(bench.target, async |store| fill(store, bench.progress).await).await?;
    let streams = streams()?;
    let readers = (0..case.callers)
        .map(|caller| Loader {
            store: fixture.store.clone(),
            streams: streams.clone(),
            next: caller * 7,
        })
        .collect();
    let baseline = baseline::loads(&fixture, case.baseline, EVENTS_EACH).await?;
    let comparison = Comparison::of(Callers(readers)).against(baseline);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

pub(super) async fn measure_feed(bench: &Bench<'_>) -> Result<Measured, Failure> {
    let fixture =
        Fixture::filled(bench.target, async |store| fill(store, bench.progress).await).await?;
    let reader = Follower { store: fixture.store.clone(), after: Position::START };
    let comparison =
        Comparison::of(Callers(vec![reader])).against(baseline::feed(&fixture, PAGE).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

fn streams() -> Result<Arc<[StreamName]>, Failure> {
    Ok((0..STREAMS).map(|n| StreamName::new(rows::stream_name(n))).collect::<Result<_, _>>()?)
}

/// One event for each stream, then the next for each.
async fn fill(store: &dyn Store, progress: &Progress) -> Result<(), Failure> {
    let (event_type, payload) =
        (EventType::new(rows::EVENT_TYPE)?, RawJson::parse(rows::payload())?);
    for done in 1..=EVENTS_EACH {
        let event = || NewEvent::new(event_type.clone(), payload.clone());
        let append =
            |commit: Commit, stream| commit.append(stream, ExpectedVersion::Any, [event()]);
        committed(store.commit(streams()?.iter().fold(Commit::new(), append)).await?)?;
        progress.filled(done * STREAMS, EVENTS_EACH * STREAMS, "events written");
    }
    Ok(())
}

/// Loads one stream after the other.
struct Loader {
    store: Arc<dyn Store>,
    streams: Arc<[StreamName]>,
    next: usize,
}

impl Caller for Loader {
    async fn call(&mut self) -> Result<u64, Failure> {
        let stream = &self.streams[self.next % STREAMS];
        self.next += 1;
        let page = self.store.read_stream(StreamQuery::forward(stream)).await?;
        match page.events.len() {
            EVENTS_EACH => Ok(1),
            other => Err(Failure::Answer(format!("stream {stream:?} has {other} events"))),
        }
    }
}

/// Reads the feed page by page, and begins again at its end.
struct Follower {
    store: Arc<dyn Store>,
    after: Position,
}

impl Caller for Follower {
    async fn call(&mut self) -> Result<u64, Failure> {
        let page = self.store.read_feed(FeedQuery::after(self.after).limit(PAGE)).await?;
        self.after = if page.events.is_empty() { Position::START } else { page.next };
        Ok(page.events.len() as u64)
    }
}
