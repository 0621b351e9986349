//! Idempotency ids of events and of commits: they make a retry safe.
//!
//! Fresh ids are time-ordered (UUID version 7), so that a database appends them to the end of its
//! index. This is the only place that creates them; code that must be replayable passes its own. A
//! simulation replaces the source of its thread, so that one seed gives one history.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Result, StoreError};

thread_local! {
    /// The state of this thread's simulated source; none outside of simulations.
    static SIMULATED: Cell<Option<Simulated>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Simulated {
    seed: u64,
    made: u64,
}

/// Makes fresh ids of this thread repeatable: they follow from the seed and their number. Ids of
/// two threads with one seed are the same, so only a simulation on one thread can use it.
#[doc(hidden)]
pub fn simulate_ids(seed: Option<u64>) {
    SIMULATED.set(seed.map(|seed| Simulated { seed, made: 0 }));
}

/// A fresh id of any kind.
#[doc(hidden)]
pub fn fresh_uuid() -> Uuid {
    match SIMULATED.get() {
        None => Uuid::now_v7(),
        Some(Simulated { seed, made }) => {
            SIMULATED.set(Some(Simulated { seed, made: made + 1 }));
            // Ordered by their number, as real ones are by time.
            Uuid::from_u64_pair(made, seed)
        }
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates a new unique id.
            pub fn fresh() -> Self {
                Self(fresh_uuid())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_ids_follow_from_the_seed_until_the_simulation_ends() {
        let three = |seed| {
            simulate_ids(Some(seed));
            [EventId::fresh(), EventId::fresh(), EventId::fresh()]
        };
        let (once, again, other) = (three(7), three(7), three(8));
        assert!(once[0] < once[1] && once[1] < once[2]);
        assert_eq!(once, again);
        assert!(once.iter().all(|id| !other.contains(id)));
        simulate_ids(None);
        assert_ne!(EventId::fresh(), EventId::fresh());
    }
}
