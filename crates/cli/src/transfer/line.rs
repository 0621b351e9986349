//! The lines of an export.

use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::store::{Item, Position, Record, StoredEvent, StreamName, Version};
use uuid::Uuid;

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first line.
    Export(Header),
    /// Events of this stream up to this version were trimmed.
    Trimmed {
        stream: StreamName,
        through: Version,
    },
    Event(StoredEvent),
    /// This stream is closed.
    Closed {
        stream: StreamName,
    },
    Record(Record),
    Item(Box<Item>),
    /// The last line.
    End(End),
}

/// The header.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    /// Identifies this export.
    pub(super) id: Uuid,
    pub(super) exported_at: Timestamp,
    pub(super) tidelock: String,
    /// Positions that something in the export refers to.
    pub(super) remembered: Vec<Position>,
}

/// The trailer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// SHA-256 of all lines before this one, line ends included.
    pub(super) checksum: String,
    /// Whether the export is a consistent snapshot: nothing changed while it was written.
    pub(super) settled: bool,
}

/// The totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) events: u64,
    pub(crate) records: u64,
    pub(crate) items: u64,
}

impl Totals {
    pub(super) fn count(&mut self, line: &Line) {
        match line {
            Line::Event(_) => self.events += 1,
            Line::Record(_) => self.records += 1,
            Line::Item(_) => self.items += 1,
            Line::Export(_) | Line::Trimmed { .. } | Line::Closed { .. } | Line::End(_) => {}
        }
    }
}
