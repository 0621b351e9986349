//! An event that was skipped, as a row.

use serde::Serialize;
use tidelock::reactions::SkippedEvent;

use crate::output::{TableRow, cut};

/// The length at which a reason or an error is truncated, unless shown in full.
const TEXT: usize = 60;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    skipped: SkippedEvent,
    #[serde(skip)]
    full: bool,
}

impl Row {
    pub(super) fn new(skipped: SkippedEvent, full: bool) -> Self {
        Self { skipped, full }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["reaction", "target", "event", "type", "position", "skipped", "reason", "error"];

    fn cells(&self) -> Vec<String> {
        let skipped = &self.skipped;
        let text =
            |text: &str| if self.full { text.to_owned() } else { cut(text, TEXT).into_owned() };
        vec![
            skipped.reaction.clone(),
            skipped.target.clone(),
            format!("{}/{}", skipped.stream, skipped.version),
            skipped.event_type.to_string(),
            skipped.position.to_string(),
            skipped.at.to_string(),
            text(&skipped.reason),
            text(skipped.error.as_deref().unwrap_or_default()),
        ]
    }
}
