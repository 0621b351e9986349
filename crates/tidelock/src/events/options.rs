//! What can be said about a decision before it is taken, whether it is about one stream or several.

use std::time::Duration;

use tidelock_store::{Commit, ExpectedVersion, limits};

use super::retry::RetryPolicy;
use crate::metadata::Metadata;

#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) metadata: Metadata,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) operation: Option<OperationId>,
    /// How long an operation is remembered, if there is one, and something was said about that.
    pub(crate) remembered: Option<Duration>,
    /// What else goes into the commit.
    pub(crate) also: Commit,
    /// What the caller wants the (first) stream to be like.
    pub(crate) pinned: Option<ExpectedVersion>,
}

/// An operation that is done once, and for how long that is remembered.
#[derive(Debug, Clone)]
pub(crate) struct OperationId {
    pub(crate) id: String,
    pub(crate) remembered: Duration,
}

impl OperationId {
    pub(crate) fn new(id: impl Into<String>, remembered: Option<Duration>) -> Self {
        Self { id: id.into(), remembered: remembered.unwrap_or(limits::COMMIT_MEMORY) }
    }
}

impl Options {
    /// Whether it needs a commit to itself.
    pub(crate) fn needs_own_commit(&self) -> bool {
        self.operation.is_some() || self.pinned.is_some() || self.also.parts() > 0
    }
}

/// The setters, which are the same wherever there are options.
macro_rules! setters {
    () => {
        /// The same, with events that say this about themselves.
        pub fn metadata(mut self, metadata: $crate::Metadata) -> Self {
            self.options.metadata = metadata;
            self
        }

        /// The same, as a consequence of this event.
        pub fn caused_by<C>(self, cause: &$crate::Recorded<C>) -> Self {
            self.metadata(cause.consequence())
        }

        /// The same, done by this one.
        pub fn by(mut self, actor: impl Into<String>) -> Self {
            self.options.metadata.actor = Some(actor.into());
            self
        }

        /// The same, retrying like this.
        pub fn retry(mut self, policy: $crate::RetryPolicy) -> Self {
            self.options.retry = Some(policy);
            self
        }

        /// The same, done once: if it was done before under this id, the answer is what it did
        /// then, and nothing is decided. It is remembered for seven days. A decision that says no
        /// is not remembered.
        pub fn operation_id(mut self, id: impl Into<String>) -> Self {
            let operation = $crate::events::options::OperationId::new(id, self.options.remembered);
            self.options.operation = Some(operation);
            self
        }

        /// The same, remembering the operation for this long.
        pub fn dedup_window(mut self, long: std::time::Duration) -> Self {
            self.options.remembered = Some(long);
            if let Some(operation) = &mut self.options.operation {
                operation.remembered = long;
            }
            self
        }

        /// The same, with these parts in the same commit: records, wakes, fences and whatever else
        /// a commit can have.
        pub fn also(mut self, parts: tidelock_store::Commit) -> Self {
            self.options.also = parts;
            self
        }
    };
}

pub(crate) use setters;
