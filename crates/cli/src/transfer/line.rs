//! What a line of an export says.

use serde::{Deserialize, Serialize};
use tidelock::{Item, Position, Record, StoredEvent, StreamName, Timestamp, Version};
use uuid::Uuid;

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first.
    Export(Header),
    /// Events of this stream up to this version were trimmed away.
    Trimmed {
        stream: StreamName,
        through: Version,
    },
    Event(StoredEvent),
    /// This stream takes no more events.
    Closed {
        stream: StreamName,
    },
    Record(Record),
    Item(Box<Item>),
    /// The last.
    End(End),
}

/// What it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    /// Tells this export from all others.
    pub(super) id: Uuid,
    pub(super) exported_at: Timestamp,
    pub(super) tidelock: String,
    /// Positions that something in here remembers.
    pub(super) remembered: Vec<Position>,
}

/// How it ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// SHA-256 of all lines before this one, line ends included.
    pub(super) checksum: String,
    /// Whether everything in it was there at one moment: nothing changed while it was written.
    pub(super) settled: bool,
}

/// How much there was.
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
