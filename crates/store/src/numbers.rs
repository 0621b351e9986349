//! Number types of the contract: versions, positions, revisions, fences, marks, priorities.
//!
//! All of them fit a signed 64-bit column. Those that count from one cannot be zero: "no stream",
//! "no record" and "never leased" are separate values, not a zero by convention.

use std::fmt;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Result, StoreError};
use crate::limits;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $what:literal, $least:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            #[doc = concat!("Checks and makes the ", $what, ".")]
            pub fn new(number: u64) -> Result<Self> {
                if !($least..=i64::MAX as u64).contains(&number) {
                    return Err(StoreError::invalid(format!(
                        concat!($what, " {} is not between ", $least, " and {}"), number, i64::MAX
                    )));
                }
                Ok(Self(number))
            }

            /// The number.
            pub const fn get(self) -> u64 {
                self.0
            }

            #[doc = concat!("The first ", $what, " above this floor.")]
            ///
            /// # Panics
            /// If that is past the end of the numbers, which takes 2⁶³ writes.
            pub fn above(floor: u64) -> Self {
                Self(0).plus(floor).plus(1)
            }

            #[doc = concat!("The ", $what, " that many further on.")]
            ///
            /// # Panics
            /// If that is past the end of the numbers, which takes 2⁶³ writes.
            #[must_use]
            pub fn plus(self, more: u64) -> Self {
                let sum = self.0.checked_add(more).filter(|sum| *sum <= i64::MAX as u64);
                Self(sum.expect(concat!("a ", $what, " stays below 2^63")))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let number = u64::deserialize(from)?;
                // Worded like serde's own messages, so that an error can show the bounds without
                // the rejected input.
                let expected = format!(concat!("a ", $what, " between ", $least, " and {}"), i64::MAX);
                Self::new(number).map_err(|_| D::Error::invalid_value(Unexpected::Unsigned(number), &expected.as_str()))
            }
        }
    };
}

number!(
    /// How many events a stream has once this one is in it. The first event's version is 1, or one
    /// above the versions of the forgotten streams of its category.
    Version, "version", 1
);
number!(
    /// An event's position in the feed of all streams. Only the order has a meaning: numbers may be
    /// skipped.
    Position, "position", 0
);
number!(
    /// Grows with every write of a record, including deletions, and is never reused: 1, 2, 3,
    /// unless records were forgotten or the store was restored; then higher.
    Revision, "revision", 1
);
number!(
    /// Fencing token: grows with every lease granted on an item. Every write under a lease carries
    /// it.
    Fence, "fence", 1
);
number!(
    /// How far the work of an item reaches, or how far it is done. Its unit is up to the item's
    /// user.
    Mark, "mark", 0
);

impl Version {
    /// The version of a stream's first event.
    pub const FIRST: Self = Self(1);
}

impl Position {
    /// Before the first event.
    pub const START: Self = Self(0);
}

impl Revision {
    /// The revision of a record's first write.
    pub const FIRST: Self = Self(1);
}

impl Fence {
    /// The fence of an item's first lease.
    pub const FIRST: Self = Self(1);
}

impl Mark {
    /// No work, nothing done.
    pub const ZERO: Self = Self(0);
}

impl From<Position> for Mark {
    /// Work up to this position of the feed.
    fn from(position: Position) -> Self {
        Self(position.0)
    }
}

impl From<Version> for Mark {
    /// Work up to this event of a stream.
    fn from(version: Version) -> Self {
        Self(version.0)
    }
}

/// The priority of an item among those that are due: higher goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Priority(i16);

impl Priority {
    /// The default priority.
    pub const NORMAL: Self = Self(0);

    /// Validates the priority.
    pub fn new(priority: i16) -> Result<Self> {
        if !(-limits::PRIORITY..=limits::PRIORITY).contains(&priority) {
            return Err(StoreError::limit(format!(
                "priority {priority} is not between -{0} and {0}",
                limits::PRIORITY
            )));
        }
        Ok(Self(priority))
    }

    /// The number.
    pub const fn get(self) -> i16 {
        self.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(i16::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
