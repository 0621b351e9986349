//! Validated names.
//!
//! Each kind of name is its own type, so that a queue cannot be passed where a stream is meant. A
//! name is not empty, not over its limit, and has no control characters (NUL among them), so no
//! store or terminal has to handle them.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Result, StoreError};
use crate::limits;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $limit:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates the name.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self> {
                let name = name.into();
                check(&name, $what, limits::$limit)?;
                Ok(Self(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = StoreError;

            fn from_str(name: &str) -> Result<Self> {
                Self::new(name)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// The name of a stream.
    StreamName, "stream name", STREAM_NAME_BYTES
);
name!(
    /// The type of an event.
    EventType, "event type", EVENT_TYPE_BYTES
);
name!(
    /// The key of a record.
    RecordKey, "record key", RECORD_KEY_BYTES
);
name!(
    /// The name of a queue: a set of work items.
    QueueName, "queue name", QUEUE_NAME_BYTES
);
name!(
    /// The key of a work item inside its queue.
    ItemKey, "item key", ITEM_KEY_BYTES
);
name!(
    /// The name of a lane: a part of a queue that can have its own workers.
    LaneName, "lane name", LANE_NAME_BYTES
);
name!(
    /// The name of a worker, as shown for the holder of a lease.
    WorkerName, "worker name", WORKER_NAME_BYTES
);

impl Default for LaneName {
    /// The default lane.
    fn default() -> Self {
        Self::new("default").expect("the default lane's name is well formed")
    }
}

fn check(name: &str, what: &str, limit: usize) -> Result<()> {
    if name.is_empty() {
        return Err(StoreError::invalid(format!("{what} is empty")));
    }
    if name.len() > limit {
        return Err(StoreError::limit(format!(
            "{what} {:?}… has {} bytes; the limit is {limit}",
            start(name),
            name.len()
        )));
    }
    match name.chars().find(|c| c.is_control()) {
        Some(control) => Err(StoreError::invalid(format!(
            "{what} {:?} has the control character {control:?} in it",
            start(name)
        ))),
        None => Ok(()),
    }
}

/// The start of a name, as quoted in an error.
fn start(name: &str) -> &str {
    let end = name.char_indices().nth(40).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

/// Validates the prefix of a lookup; unlike a name, it may be empty.
pub(crate) fn check_prefix(prefix: &str, what: &str, limit: usize) -> Result<()> {
    if prefix.is_empty() { Ok(()) } else { check(prefix, what, limit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreErrorKind;

    #[test]
    fn a_name_says_what_is_wrong_with_it() {
        let kind = |name: &str| StreamName::new(name).map_err(|e| (e.kind(), e.to_string()));
        assert_eq!(
            kind("").unwrap_err(),
            (StoreErrorKind::Invalid, "check: stream name is empty".into())
        );
        let (refused, message) = kind("a\0b").unwrap_err();
        assert_eq!(refused, StoreErrorKind::Invalid);
        assert!(message.contains(r"control character '\0'"), "{message}");
        let (refused, message) = kind(&"é".repeat(200)).unwrap_err();
        assert_eq!(refused, StoreErrorKind::LimitExceeded);
        assert!(message.contains("400 bytes; the limit is 256"), "{message}");
    }

    #[test]
    fn a_name_read_from_json_is_checked_too() {
        assert!(serde_json::from_str::<QueueName>("\"\"").is_err());
        assert_eq!(serde_json::from_str::<QueueName>("\"mail\"").unwrap().as_str(), "mail");
    }
}
