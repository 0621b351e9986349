//! A caller that appends to its own stream, in this process.

use std::sync::Arc;

use tidelock::ExpectedVersion;
use tidelock::store::{EventType, NewEvent, RawJson, Store, StoreExt, StreamName};

use super::client::ORDER;
use crate::failure::Failure;
use crate::measure::Caller;

pub(super) struct Appender {
    store: Arc<dyn Store>,
    stream: StreamName,
}

impl Appender {
    pub(super) fn new(store: &Arc<dyn Store>, nth: usize) -> Result<Self, Failure> {
        Ok(Self { store: store.clone(), stream: StreamName::new(format!("here-{nth}"))? })
    }
}

impl Caller for Appender {
    async fn call(&mut self) -> Result<u64, Failure> {
        let event = NewEvent::new(EventType::new("placed")?, RawJson::parse(ORDER)?);
        let outcome = self.store.append(&self.stream, ExpectedVersion::Any, vec![event]).await?;
        outcome.committed().map_err(|conflict| Failure::Answer(conflict.to_string()))?;
        Ok(1)
    }
}
