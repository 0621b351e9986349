//! Why several rights could not be had together.

use std::fmt;

use tidelock_store::{RawJson, RecordKey, Result, Timestamp, WorkerName};

use super::super::claim_attempt::{ClaimAttempt, ClaimStatus};
use super::super::entry::State;
use super::super::{ClaimKey, FingerprintMismatch, QuotaExceeded, keys};
use crate::telemetry;

/// One right that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub key: ClaimKey,
    /// Why not.
    pub why: RefusalReason,
}

/// Why a right could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Somebody else has it, or stands in line for it.
    Held {
        /// Who.
        by: WorkerName,
        /// Since when.
        since: Option<Timestamp>,
        /// Until when, unless they ask for longer.
        until: Option<Timestamp>,
    },
    /// It was done, by somebody who left this.
    Done {
        /// Who.
        by: WorkerName,
        /// When.
        at: Option<Timestamp>,
        /// What came of it.
        result: RawJson,
    },
    /// It was done, and failed, and the failure was to be remembered.
    Failed(String),
    /// The key was used for another request.
    Mismatch(Box<FingerprintMismatch>),
    /// There is not so much left.
    Exceeded(Box<QuotaExceeded>),
}

impl Refusal {
    /// What was in the way of this stake, if anything was.
    pub(super) fn of(stake: &mut ClaimAttempt) -> Option<Self> {
        if !stake.stands() {
            return None;
        }
        let (asked, key) = (stake.entry.fingerprint, stake.key.clone());
        let why = match stake.standing() {
            ClaimStatus::Won(_) => return None,
            ClaimStatus::Held(rival) if rival.entry.differs(asked) => {
                RefusalReason::mismatch(&key, rival.by(), rival.since)
            }
            ClaimStatus::Held(rival) => RefusalReason::Held {
                by: rival.by().clone(),
                since: rival.since,
                until: rival.until,
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

    /// Somebody stands in line for this lock.
    pub(super) fn behind(key: &ClaimKey, by: WorkerName) -> Self {
        Self { key: key.clone(), why: RefusalReason::Held { by, since: None, until: None } }
    }

    /// Counts and logs that somebody was in the way.
    pub(super) fn tell(&self, waiter: &WorkerName, attempts: u32) {
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

/// The record of a lock to wait for, if locks are all that is in the way.
pub(super) fn lock_to_wait_for(refusals: &[Refusal]) -> Result<Option<RecordKey>> {
    match refusals.first() {
        Some(first) if are_locks(refusals) => keys::record(&first.key).map(Some),
        _ => Ok(None),
    }
}

/// Whether nothing but locks is in the way.
pub(super) fn are_locks(refusals: &[Refusal]) -> bool {
    refusals.iter().all(Refusal::is_lock)
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
