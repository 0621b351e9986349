//! The ways to give out positions that are compared, and what each has to say in SQL.
//!
//! Each has a file of its own with the same three texts. All take a batch in one statement, all write the same rows, and
//! all lock what they lock in the same order: the heads of streams by name, then whatever the mechanism needs.

use clap::ValueEnum;

use super::{counter, lock, sequence, ticket, xid};

/// A way to give out positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mechanism {
    /// A counter row, advanced in the statement that writes the events.
    Counter,
    /// A row that is locked but never changed, and one more than the highest position there is.
    Lock,
    /// The number of the transaction; readers stay behind the oldest one that is still writing.
    Xid,
    /// A sequence; readers stay behind the oldest transaction that has said that it draws from it.
    Ticket,
    /// A sequence, and readers who believe it. It skips: it is here as the limit, and to show that skips are noticed.
    Sequence,
}

/// What a mechanism says to the database.
pub(super) struct Sql {
    /// What it needs besides `events` and `heads`.
    pub(super) tables: &'static str,
    /// Appends one event to each of the streams `$1`, with ids `$2`, types `$3`, payloads `$4` and metadata `$5`; gives
    /// stream and position. A stream that is not in the answer was not written to and has to be tried again.
    pub(super) append: &'static str,
    /// Gives the next events after position `$1`, in order.
    pub(super) page: &'static str,
}

impl Mechanism {
    /// In the order in which they take turns.
    pub(super) const ALL: [Self; 5] = [Self::Counter, Self::Lock, Self::Xid, Self::Ticket, Self::Sequence];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Lock => "lock",
            Self::Xid => "xid",
            Self::Ticket => "ticket",
            Self::Sequence => "sequence",
        }
    }

    pub(super) fn sql(self) -> &'static Sql {
        match self {
            Self::Counter => &counter::SQL,
            Self::Lock => &lock::SQL,
            Self::Xid => &xid::SQL,
            Self::Ticket => &ticket::SQL,
            Self::Sequence => &sequence::SQL,
        }
    }

    /// Whether a reader can miss events; if so, that is no failure of the run.
    pub(super) fn may_skip(self) -> bool {
        self == Self::Sequence
    }
}
