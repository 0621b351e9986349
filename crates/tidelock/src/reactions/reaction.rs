//! A reaction, as it was registered.

use std::fmt;
use std::sync::Arc;

use tidelock_store::{EventType, ItemRef, QueueName};

use super::handler::Handler;
use super::keys;
use super::options::Options;
use super::route::Route;

/// Bytes in a reaction's name.
const NAME_BYTES: usize = 64;

/// The name of a reaction. It is in the store: a reaction under another name is another reaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReactionName(Arc<str>);

/// A reaction that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name cannot be one.
    #[error(
        "reaction {name:?}: a name has 1 to {NAME_BYTES} bytes, does not begin with ~, and has no /, *, ? or control \
         character in it"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// Two of one name.
    #[error("reaction {name:?} is registered twice; give one of them another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// A workflow's name cannot be one.
    #[error(transparent)]
    Workflow(crate::runs::InvalidName),
    /// One version of a workflow, twice.
    #[error(
        "workflow {name:?} is registered twice as version {version}; give one of them another version"
    )]
    TwiceAWorkflow {
        /// The name.
        name: String,
        /// The version.
        version: u32,
    },
    /// A setting of the application, or of a workflow, cannot be.
    #[error("{of}: {problem}")]
    Setting {
        /// Of what.
        of: String,
        /// What is wrong.
        problem: String,
    },
    /// An option cannot be.
    #[error("reaction {name:?}: {problem}")]
    Option {
        /// Of which reaction.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

impl ReactionName {
    /// Checks and makes the name.
    ///
    /// # Errors
    /// [`BuildError::Name`] if it cannot be one.
    pub fn new(name: &str) -> Result<Self, BuildError> {
        let odd = |c: char| c.is_control() || matches!(c, '/' | '*' | '?');
        if name.is_empty()
            || name.len() > NAME_BYTES
            || keys::is_reserved(name)
            || name.contains(odd)
        {
            return Err(BuildError::Name { name: name.chars().take(NAME_BYTES).collect() });
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReactionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What it follows, where its events go, what is done with them, and how.
pub(crate) struct Reaction {
    pub(crate) name: ReactionName,
    pub(crate) queue: QueueName,
    /// Types of events that it wants; all, if there are none.
    pub(crate) types: Vec<EventType>,
    /// What the names of the streams begin with whose events it wants.
    pub(crate) streams: String,
    pub(crate) route: Route,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) options: Options,
}

impl Reaction {
    /// Whether it wants events of this type from this stream. Tidelock's own events are nobody's.
    pub(crate) fn wants(&self, event: &tidelock_store::StoredEvent) -> bool {
        let stream = event.stream.as_str();
        !keys::is_reserved(stream)
            && stream.starts_with(&self.streams)
            && (self.types.is_empty() || self.types.contains(&event.event_type))
    }

    /// The item of this target.
    pub(crate) fn item(&self, target: &tidelock_store::ItemKey) -> ItemRef {
        ItemRef::new(&self.queue, target)
    }
}

impl fmt::Debug for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaction")
            .field("name", &self.name)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_misread_in_the_store_is_refused() {
        for name in ["", "~mine", "a/b", "a*", "a?", "a\n", &"x".repeat(65)] {
            assert!(ReactionName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(ReactionName::new("send-mail").unwrap().as_str(), "send-mail");
    }
}
