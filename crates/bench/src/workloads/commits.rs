//! Commits of events, each caller on a stream of its own.

use std::sync::Arc;

use tidelock::{Commit, EventType, ExpectedVersion, Json, NewEvent, Store, StreamName};

use super::{Bench, committed};
use crate::bare;
use crate::failure::Failure;
use crate::measure::{self, Caller, Contest, Measured};
use crate::rows;
use crate::site::Site;

pub(super) async fn measure(bench: &Bench<'_>, callers: usize, events: usize) -> Result<Measured, Failure> {
    let site = Site::filled(bench.target, async |_| Ok(())).await?;
    let writers = (0..callers).map(|n| Writer::new(&site, n, events)).collect::<Result<Vec<_>, _>>()?;
    let bare = bare::commits(&site, callers, events)?;
    let measured = measure::measure(Contest::against(bare, writers), bench.time, bench.progress).await?;
    site.clear().await?;
    Ok(measured)
}

struct Writer {
    store: Arc<dyn Store>,
    stream: StreamName,
    expected: ExpectedVersion,
    event_type: EventType,
    payload: Json,
    events: usize,
}

impl Writer {
    fn new(site: &Site, number: usize, events: usize) -> Result<Self, Failure> {
        Ok(Self {
            store: site.store.clone(),
            stream: StreamName::new(rows::stream_name(number))?,
            expected: ExpectedVersion::NoStream,
            event_type: EventType::new(rows::EVENT_TYPE)?,
            payload: Json::parse(rows::payload())?,
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
        let appended = committed.appends.first();
        let appended = appended.ok_or_else(|| Failure::Answer("a commit without its append".to_owned()))?;
        self.expected = ExpectedVersion::Exact(appended.version);
        Ok(1)
    }
}
