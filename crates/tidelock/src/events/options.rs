//! Options of a decision, on one stream or several.

use std::time::Duration;

use tidelock_store::{Commit, EventId, ExpectedVersion, limits};
use uuid::Uuid;

use crate::metadata::Metadata;
use crate::retry::Retry;

#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) metadata: Metadata,
    pub(crate) retry: Retry,
    pub(crate) operation: Option<OperationId>,
    /// How long an operation is remembered, if set.
    pub(crate) remembered: Option<Duration>,
    /// The ids of the events, if the caller chose them.
    pub(crate) event_ids: Vec<EventId>,
    /// Additional parts of the commit.
    pub(crate) also: Commit,
    /// The state that the caller requires of the (first) stream.
    pub(crate) pinned: Option<ExpectedVersion>,
}

/// Id of an operation that takes effect once, and its retention.
#[derive(Debug, Clone)]
pub(crate) struct OperationId {
    pub(crate) id: String,
    pub(crate) remembered: Duration,
}

impl OperationId {
    pub(crate) fn new(id: impl Into<String>, remembered: Option<Duration>) -> Self {
        Self { id: id.into(), remembered: remembered.unwrap_or(limits::COMMIT_MEMORY) }
    }

    /// The operation of appending events under these ids.
    pub(crate) fn of_events(ids: &[EventId], remembered: Option<Duration>) -> Self {
        let ids: Vec<u8> = ids.iter().flat_map(|id| *id.as_bytes()).collect();
        Self::new(Uuid::new_v5(&Uuid::NAMESPACE_OID, &ids), remembered)
    }
}

impl Options {
    /// The id that the caller chose for the nth event.
    pub(crate) fn event_id(&self, nth: usize) -> Option<EventId> {
        self.event_ids.get(nth).copied()
    }

    /// Whether the decision needs its own commit.
    pub(crate) fn needs_own_commit(&self) -> bool {
        self.operation.is_some() || self.pinned.is_some() || self.also.parts() > 0
    }
}

/// The setters shared by all decisions.
macro_rules! setters {
    () => {
        /// Sets the metadata of the events.
        pub fn metadata(mut self, metadata: $crate::Metadata) -> Self {
            self.options.metadata = metadata;
            self
        }

        /// Sets the event that caused this decision: correlation and causation are taken from it.
        pub fn caused_by<C>(self, cause: &$crate::events::Recorded<C>) -> Self {
            self.metadata(cause.consequence())
        }

        /// Sets the actor: who made the decision.
        pub fn by(mut self, actor: impl Into<String>) -> Self {
            self.options.metadata.actor = Some(actor.into());
            self
        }

        /// Sets the retry policy of this decision; what it does not set is that of the handle.
        pub fn retry(mut self, retry: $crate::Retry) -> Self {
            self.options.retry = retry;
            self
        }

        /// Makes the decision idempotent.
        ///
        /// If it was executed under this id before, the recorded result is returned and nothing is
        /// decided. The id is remembered for seven days, or for the [deduplication
        /// window](Self::dedup_window). A refusal is not remembered.
        pub fn operation_id(mut self, id: impl Into<String>) -> Self {
            let operation = $crate::events::options::OperationId::new(id, self.options.remembered);
            self.options.operation = Some(operation);
            self
        }

        /// Sets how long the operation id is remembered.
        pub fn dedup_window(mut self, long: std::time::Duration) -> Self {
            self.options.remembered = Some(long);
            if let Some(operation) = &mut self.options.operation {
                operation.remembered = long;
            }
            self
        }

        /// Adds parts to the same commit: records, wakes, fences and anything else a commit can
        /// contain.
        pub fn also(mut self, parts: tidelock_store::Commit) -> Self {
            self.options.also = parts;
            self
        }
    };
}

pub(crate) use setters;
