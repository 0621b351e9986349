//! A registered reaction, its name, and build errors.

use std::fmt;
use std::sync::Arc;

use tidelock_store::{EventType, ItemRef, QueueName};

use super::handler::Handler;
use super::keys;
use super::options::Options;
use super::route::Route;

/// The maximum length of a reaction's name, in bytes.
const NAME_BYTES: usize = 64;

/// The name of a reaction. It identifies the reaction in the store: another name is another
/// reaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReactionName(Arc<str>);

/// Why an application could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of a reaction is not valid.
    #[error(
        "reaction {name:?}: a name has 1 to {NAME_BYTES} bytes, does not begin with ~, and has no /, *, ? or control \
         character in it"
    )]
    Name {
        /// The given name.
        name: String,
    },
    /// Two reactions have the same name.
    #[error("reaction {name:?} is registered twice; give one of them another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// The name of a workflow is not valid.
    #[error(transparent)]
    Workflow(crate::runs::InvalidName),
    /// A version of a workflow is registered twice.
    #[error(
        "workflow {name:?} is registered twice as version {version}; give one of them another version"
    )]
    TwiceAWorkflow {
        /// The name.
        name: String,
        /// The version.
        version: u32,
    },
    /// A setting of the application, or of a workflow, is not valid.
    #[error("{of}: {problem}")]
    Setting {
        /// The subject of the setting.
        of: String,
        /// What is wrong.
        problem: String,
    },
    /// An option of a reaction is not valid.
    #[error("reaction {name:?}: {problem}")]
    Option {
        /// The reaction.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

impl ReactionName {
    /// Validates the name.
    ///
    /// # Errors
    /// [`BuildError::Name`] if it is not valid.
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

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReactionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A registered reaction: its subscription, route, handler and options.
pub(crate) struct Reaction {
    pub(crate) name: ReactionName,
    pub(crate) queue: QueueName,
    /// The event types it handles; all, if empty.
    pub(crate) types: Vec<EventType>,
    /// The prefix of the streams it follows.
    pub(crate) streams: String,
    pub(crate) route: Route,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) options: Options,
}

impl Reaction {
    /// Whether it handles events of this type from this stream. Reserved streams are never handled.
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
    fn invalid_names_are_refused() {
        for name in ["", "~mine", "a/b", "a*", "a?", "a\n", &"x".repeat(65)] {
            assert!(ReactionName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(ReactionName::new("send-mail").unwrap().as_str(), "send-mail");
    }
}
