//! An event as it is shown.

use serde::Serialize;
use tidelock::StoredEvent;

use crate::output::{Listed, cut, json_line};

/// Characters of a payload that are shown unless all are asked for.
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

impl Listed for Row {
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
