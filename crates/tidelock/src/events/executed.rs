//! What became of a decision.

use tidelock_store::{EventId, Position, StreamName, Version};

/// A decision, and the events that it became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The stream.
    pub stream: StreamName,
    /// The stream's version after it; none if there is no stream, because nothing was decided.
    pub version: Option<Version>,
    /// The position of its last event, by which followers can tell that they have seen it; none if
    /// there are no events.
    pub position: Option<Position>,
    /// Its events.
    pub events: Vec<EventId>,
    /// How many attempts it took.
    pub attempts: u32,
    /// How it came about.
    pub how: Provenance,
}

/// How a decision became events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// It was taken on the state before its events.
    Decided,
    /// It was taken on an earlier state, and commutes with what came between.
    Rebased,
    /// It was taken before, under the same operation: this is what it did then.
    Replayed,
}
