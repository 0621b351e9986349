//! Result of a decision.

use tidelock_store::{EventId, Position, StreamName, Version};

/// An executed decision and its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The stream.
    pub stream: StreamName,
    /// The stream's version afterwards; `None` if the stream does not exist and nothing was
    /// decided.
    pub version: Option<Version>,
    /// The position of the last event, with which readers can wait for it; `None` if there are no
    /// events.
    pub position: Option<Position>,
    /// Ids of the appended events.
    pub events: Vec<EventId>,
    /// Number of attempts.
    pub attempts: u32,
    /// How the events were obtained.
    pub how: Provenance,
}

/// How a decision's events were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Decided on the state directly before its events.
    Decided,
    /// Decided on an earlier state, and rebased because it commutes with the events since.
    Rebased,
    /// Executed earlier under the same operation id; this is the recorded result.
    Replayed,
}
