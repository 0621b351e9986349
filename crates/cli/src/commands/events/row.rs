//! An event as a row.

use serde::Serialize;
use tidelock::store::StoredEvent;

use crate::output::{TableRow, cut, json_line};

/// The length at which a payload is truncated, unless shown in full.
const PAYLOAD: usize = 100;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Row {
    event: StoredEvent,
    #[serde(skip)]
    full: bool,
}

impl Row {
    pub(super) fn new(event: StoredEvent, full: bool) -> Self {
        Self { event, full }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["position", "at", "stream", "version", "type", "payload"];

    fn cells(&self) -> Vec<String> {
        let event = &self.event;
        let payload = json_line(event.payload.as_str());
        vec![
            event.position.to_string(),
            event.recorded_at.to_string(),
            event.stream.to_string(),
            event.version.to_string(),
            event.event_type.to_string(),
            if self.full { payload.into_owned() } else { cut(&payload, PAYLOAD).into_owned() },
        ]
    }
}
