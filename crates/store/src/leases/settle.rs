//! Settlements: the ways in which a holder ends its lease.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LeaseToken;
use crate::clock::When;
use crate::error::{Result, StoreError};
use crate::numbers::Mark;

/// A part of a commit: the end of a lease.
///
/// Settlements are idempotent: the same one with no further progress, sent again before the item is
/// leased again, is accepted and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseToken,
    /// The progress made before the end. Every kind of settlement keeps it.
    pub done: Option<Mark>,
    /// How it ended.
    pub exit: Settle,
}

/// How a lease ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// Success. The item is due again immediately if its mark is further on, but not before
    /// `defer`.
    Ack {
        /// The earliest moment for remaining or new work.
        defer: Option<When>,
        /// When the store forgets the item if it is still idle then; never by default. A wake
        /// cancels this. A forgotten item loses its cursor and its counts; fences are not reused.
        forget: Option<When>,
    },
    /// Failure: retry no sooner than after this delay. Counts as a failure.
    Retry {
        /// The backoff.
        after: Duration,
        /// The error.
        error: String,
    },
    /// No failure: try again no sooner than this moment.
    Defer {
        /// The earliest moment.
        until: When,
    },
    /// Failure: no further attempts until the item is unblocked.
    Block {
        /// The error.
        error: String,
    },
    /// Gives the item back unchanged, for any worker to lease; the attempt stays counted.
    Release,
}

/// The kind of a settlement.
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

    /// The name under which stores keep it.
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
    /// The kind of this settlement.
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
    /// Acknowledges work up to this mark. A holder that got further than the item's mark moves the
    /// mark too: wakes up to there are already done.
    pub fn ack(lease: LeaseToken, done: Mark) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: None, forget: None } }
    }

    /// Acknowledges work up to this mark; the rest is not due before `until`.
    pub fn ack_and_defer(lease: LeaseToken, done: Mark, until: When) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: Some(until), forget: None } }
    }

    /// Acknowledges an item that is finished: the store forgets it after `forget`, unless it is
    /// woken before.
    pub fn finish(lease: LeaseToken, done: Mark, forget: When) -> Self {
        Self { lease, done: Some(done), exit: Settle::Ack { defer: None, forget: Some(forget) } }
    }

    /// Reports a failure to retry after a delay.
    pub fn retry(lease: LeaseToken, after: Duration, error: impl Into<String>) -> Self {
        Self { lease, done: None, exit: Settle::Retry { after, error: error.into() } }
    }

    /// Defers the item without counting a failure.
    pub fn defer(lease: LeaseToken, until: When) -> Self {
        Self { lease, done: None, exit: Settle::Defer { until } }
    }

    /// Reports a failure that needs an operator: the item is blocked.
    pub fn block(lease: LeaseToken, error: impl Into<String>) -> Self {
        Self { lease, done: None, exit: Settle::Block { error: error.into() } }
    }

    /// Gives the item back; the attempt stays counted.
    pub fn release(lease: LeaseToken) -> Self {
        Self { lease, done: None, exit: Settle::Release }
    }

    /// Sets the progress made before the end.
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
