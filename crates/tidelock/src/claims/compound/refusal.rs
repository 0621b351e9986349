//! Why a compound claim was refused.

use std::fmt;
use std::ops::Deref;

use tidelock_store::{RawJson, RecordKey, Result, Timestamp, WorkerName};

use super::super::claim_attempt::{ClaimAttempt, ClaimStatus};
use super::super::entry::State;
use super::super::{ClaimKey, FingerprintMismatch, QuotaExceeded, keys};
use crate::telemetry;

/// A refused part of a compound claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The claim.
    pub key: ClaimKey,
    /// The reason.
    pub why: RefusalReason,
}

/// The refused parts of a compound claim: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals(pub(super) Vec<Refusal>);

/// Why a claim was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Another claimant holds it or waits for it.
    Held {
        /// The claimant.
        by: WorkerName,
        /// When it was acquired.
        since: Option<Timestamp>,
        /// When its lease expires, unless it is renewed.
        until: Option<Timestamp>,
    },
    /// It was completed before.
    Done {
        /// The claimant.
        by: WorkerName,
        /// When it was completed.
        at: Option<Timestamp>,
        /// The result.
        result: RawJson,
    },
    /// It was executed before and failed, and the failure was remembered.
    Failed(String),
    /// The key was used for another request.
    Mismatch(Box<FingerprintMismatch>),
    /// The quota has not enough units left.
    Exceeded(Box<QuotaExceeded>),
}

impl Refusal {
    /// Returns why this attempt was refused, if it was.
    pub(super) fn of(attempt: &mut ClaimAttempt) -> Option<Self> {
        if !attempt.has_status() {
            return None;
        }
        let (asked, key) = (attempt.entry.fingerprint, attempt.key.clone());
        let why = match attempt.status() {
            ClaimStatus::Won(_) => return None,
            ClaimStatus::Held(contender) if contender.entry.differs(asked) => {
                RefusalReason::mismatch(&key, contender.by(), contender.since)
            }
            ClaimStatus::Held(contender) => RefusalReason::Held {
                by: contender.by().clone(),
                since: contender.since,
                until: contender.until,
            },
            ClaimStatus::Over(entry) if entry.differs(asked) => {
                RefusalReason::mismatch(&key, &entry.by, entry.at)
            }
            ClaimStatus::Over(entry) if entry.state == State::Failed => {
                RefusalReason::Failed(entry.error.clone().unwrap_or_default())
            }
            ClaimStatus::Over(entry) => RefusalReason::Done {
                by: entry.by.clone(),
                at: entry.at,
                result: entry.value().ok()?,
            },
        };
        Some(Self { key, why })
    }

    /// A refusal because another claimant waits for this lock.
    pub(super) fn behind(key: &ClaimKey, by: WorkerName) -> Self {
        Self { key: key.clone(), why: RefusalReason::Held { by, since: None, until: None } }
    }

    /// Reports the contention to telemetry.
    pub(super) fn report(&self, waiter: &WorkerName, attempts: u32) {
        if let RefusalReason::Held { by, .. } = &self.why {
            telemetry::claim_contended(&self.key, waiter, by, attempts);
        }
    }

    fn is_lock(&self) -> bool {
        self.key.kind() == keys::LOCK
    }
}

impl RefusalReason {
    fn mismatch(key: &ClaimKey, by: &WorkerName, at: Option<Timestamp>) -> Self {
        Self::Mismatch(Box::new(FingerprintMismatch { key: key.clone(), by: by.clone(), at }))
    }
}

impl Refusals {
    /// Returns the record of a lock to wait for, if only locks are refused.
    pub(super) fn lock_to_wait_for(&self) -> Result<Option<RecordKey>> {
        match self.first() {
            Some(first) if self.are_locks() => keys::record(&first.key).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether only locks are refused.
    pub(super) fn are_locks(&self) -> bool {
        self.iter().all(Refusal::is_lock)
    }
}

impl Deref for Refusals {
    type Target = [Refusal];

    fn deref(&self) -> &[Refusal] {
        &self.0
    }
}

impl IntoIterator for Refusals {
    type Item = Refusal;
    type IntoIter = std::vec::IntoIter<Refusal>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl std::error::Error for Refusals {}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, refusal) in self.iter().enumerate() {
            write!(f, "{}{refusal}", if nth == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            RefusalReason::Held { by, .. } => write!(f, "claim {:?}: {by:?} has it", self.key),
            RefusalReason::Done { by, .. } => {
                write!(f, "claim {:?}: it was done by {by:?}", self.key)
            }
            RefusalReason::Failed(error) => {
                write!(f, "claim {:?}: it was done before and failed: {error}", self.key)
            }
            RefusalReason::Mismatch(mismatch) => mismatch.fmt(f),
            RefusalReason::Exceeded(exceeded) => exceeded.fmt(f),
        }
    }
}
