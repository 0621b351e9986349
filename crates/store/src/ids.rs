//! Idempotency ids of events and of commits: they make a retry safe.
//!
//! Fresh ids are time-ordered (UUID version 7), so that a database appends them to the end of its
//! index. This is the only place that creates them; code that must be replayable passes its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Result, StoreError};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates a new unique id.
            pub fn fresh() -> Self {
                Self(Uuid::now_v7())
            }

            #[doc = concat!("The ", $what, " with these sixteen bytes.")]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The id's sixteen bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = StoreError;

            fn from_str(text: &str) -> Result<Self> {
                let id = Uuid::from_str(text)
                    .map_err(|e| StoreError::invalid(format!(concat!($what, " {:?} is not a UUID"), text)).caused_by(e))?;
                Ok(Self(id))
            }
        }
    };
}

id!(
    /// The id of an event, unique in the whole store.
    EventId, "event id"
);
id!(
    /// The id of a commit: its idempotency key. The same commit sent again under it returns the
    /// first result.
    CommitId, "commit id"
);
