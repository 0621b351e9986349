//! The ways in which a lease ends by its holder's will.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LeaseToken;
use crate::clock::When;
use crate::error::{Result, StoreError};
use crate::numbers::Mark;

/// A part of a commit: the end of a lease.
///
/// The same exit with no further progress, sent again before anybody else leases the item, is
/// accepted and changes nothing: its first reply was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseToken,
    /// Done up to here, before whatever ended it. Progress is kept in every exit.
    pub done: Option<Mark>,
    /// How it ended.
    pub exit: Settle,
}

/// How a lease ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// It went well. The item is due again at once if its mark is further on, but not before
    /// `defer`.
    Ack {
        /// The earliest moment for whatever is left or comes.
        defer: Option<When>,
        /// When the store forgets the item if it stays idle until then; never by default. A wake
        /// makes it stay. A forgotten item has lost its cursor and its counts; fences are not
        /// reused.
        forget: Option<When>,
    },
    /// It failed and is to be tried again, no sooner than after this long. Counts as a failure.
    Retry {
        /// The backoff.
        after: Duration,
        /// What went wrong.
        error: String,
    },
    /// It did not fail, but is to be tried again, no sooner than then.
    Defer {
        /// The earliest moment.
        until: When,
    },
    /// It failed and is not to be tried until somebody unblocks it.
    Block {
        /// What went wrong.
        error: String,
    },
    /// It is given back as it was, for anybody to take; the attempt stays counted.
    Release,
}

/// Which of the exits it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // each is the exit of the same name
pub enum SettleKind {
    Ack,
    Retry,
    Defer,
    Block,
    Release,
}

impl SettleKind {
    const NAMES: [(Self, &str); 5] = [
        (Self::Ack, "ack"),
        (Self::Retry, "retry"),
        (Self::Defer, "defer"),
        (Self::Block, "block"),
        (Self::Release, "release"),
    ];

    /// The exit's name, as stores keep it.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for SettleKind {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found
            .map(|(kind, _)| *kind)
            .ok_or_else(|| StoreError::invalid(format!("{name:?} is no settlement")))
    }
}

impl Settle {
    /// Which of the exits this is.
    pub fn kind(&self) -> SettleKind {
        match self {
            Self::Ack { .. } => SettleKind::Ack,
            Self::Retry { .. } => SettleKind::Retry,
            Self::Defer { .. } => SettleKind::Defer,
            Self::Block { .. } => SettleKind::Block,
            Self::Release => SettleKind::Release,
        }
    }
}

impl Settlement {
    /// Done up to this mark. A holder that got further than the item's mark moves the mark too:
    /// wakes up to there are done already.
    pub fn ack(lease: LeaseToken, done: Mark) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: None, forget: None } }
    }

    /// Done up to this mark; the rest not before then.
    pub fn ack_and_defer(lease: LeaseToken, done: Mark, until: When) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: Some(until), forget: None } }
    }

    /// Acknowledges an item that is finished: the store forgets it after that moment, unless it is
    /// woken before.
    pub fn finish(lease: LeaseToken, done: Mark, forget: When) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: None, forget: Some(forget) } }
    }

    /// Failed; again after this long.
    pub fn retry(lease: LeaseToken, after: Duration, error: impl Into<String>) -> Self {
        Self { lease, done: None, exit: Settle::Retry { after, error: error.into() } }
    }

    /// Not now; again then.
    pub fn defer(lease: LeaseToken, until: When) -> Self {
        Self { lease, done: None, exit: Settle::Defer { until } }
    }

    /// Failed for good, until somebody looks at it.
    pub fn block(lease: LeaseToken, error: impl Into<String>) -> Self {
        Self { lease, done: None, exit: Settle::Block { error: error.into() } }
    }

    /// Given back; the attempt stays counted.
    pub fn release(lease: LeaseToken) -> Self {
        Self { lease, done: None, exit: Settle::Release }
    }

    /// The same, with progress made before it ended.
    #[must_use]
    pub fn having_done(mut self, mark: Mark) -> Self {
        self.done = Some(mark);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let time = match &self.exit {
            Settle::Ack { defer, forget } => defer
                .map_or(Ok(()), |until| until.check("deferral"))
                .and_then(|()| forget.map_or(Ok(()), |when| when.check("forgetting"))),
            Settle::Defer { until } => until.check("deferral"),
            Settle::Retry { after, .. } => When::In(*after).check("retry"),
            _ => Ok(()),
        };
        time.map_err(|e| e.about(format_args!("settlement of {}", self.lease.item)))
    }
}
