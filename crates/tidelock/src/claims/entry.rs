//! Content of a claim's two records.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, Record, Result, StoreError, Timestamp, WorkerName, fresh_uuid};
use uuid::Uuid;

use super::{Claims, Fingerprint};

/// Content of a claim record: the claimant and the result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) state: State,
    /// Unique per attempt, so that a claimant that lost the reply to a commit can recognize its
    /// own.
    pub(super) token: Uuid,
    pub(super) by: WorkerName,
    /// The operation id, so that a repeat recognizes its own claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fingerprint: Option<Fingerprint>,
    /// How long the result is kept, in microseconds; absent for indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    /// When it was acquired; set once it has a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Timestamp>,
    /// The result. Absent means `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<RawJson>,
    /// The error of failed work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Pending,
    Done,
    Failed,
}

impl Entry {
    /// Creates the entry of a claim in progress.
    pub(super) fn pending(claims: &Claims, fingerprint: Option<Fingerprint>) -> Self {
        let (token, by) = (fresh_uuid(), claims.by.clone());
        let operation = claims.operation.as_ref().map(|operation| operation.id.clone());
        let (ttl, at, value, error) = (None, None, None, None);
        Self { state: State::Pending, token, by, operation, fingerprint, ttl, at, value, error }
    }

    /// Sets how long the result is kept.
    pub(super) fn with_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl.map(|ttl| u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
        self
    }

    /// Returns how long the result is kept.
    pub(super) fn ttl(&self) -> Option<Duration> {
        self.ttl.map(Duration::from_micros)
    }

    /// Returns the entry with a result.
    pub(super) fn done(&self, value: RawJson, at: Timestamp) -> Self {
        Self { state: State::Done, value: Some(value), at: Some(at), ..self.clone() }
    }

    /// Returns the entry with a failure.
    pub(super) fn failed(&self, error: String, at: Timestamp) -> Self {
        Self { state: State::Failed, error: Some(error), at: Some(at), ..self.clone() }
    }

    pub(super) fn read(record: &Record) -> Result<Self> {
        record.value.to().map_err(|e| StoreError::corrupt(format!("record {:?}: {e}", record.key)))
    }

    pub(super) fn json(&self) -> Result<RawJson> {
        RawJson::new(self)
    }

    /// When it was acquired by the claimant's clock; for display only.
    pub(super) fn acquired_at(&self) -> Option<Timestamp> {
        let (seconds, nanos) = self.token.get_timestamp()?.to_unix();
        let micros = i64::try_from(seconds)
            .ok()?
            .checked_mul(1_000_000)?
            .checked_add(i64::from(nanos / 1_000))?;
        Timestamp::from_micros(micros).ok()
    }

    /// Whether this entry belongs to the same operation and is in the same state.
    pub(super) fn is_same_operation(&self, asked: &Self) -> bool {
        self.operation.is_some() && self.operation == asked.operation && self.state == asked.state
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state == State::Pending
    }

    /// Returns the result.
    pub(super) fn value(&self) -> Result<RawJson> {
        self.value.clone().map_or_else(|| RawJson::new(&()), Ok)
    }

    /// Whether this certainly belongs to another request.
    pub(super) fn differs(&self, asked: Option<Fingerprint>) -> bool {
        matches!((self.fingerprint, asked), (Some(first), Some(asked)) if first != asked)
    }
}

/// Content of a lease record.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LeaseRecord {
    /// Its duration, in microseconds.
    lease: u64,
    /// When the claim was acquired; absent if that was when this record was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

impl LeaseRecord {
    pub(super) fn json(lease: Duration, since: Option<Timestamp>) -> Result<RawJson> {
        let lease = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        RawJson::new(&Self { lease, since })
    }

    /// Returns when the claim was acquired.
    pub(super) fn since(record: &Record) -> Option<Timestamp> {
        let note: Self = record.value.to().ok()?;
        note.since.or_else(|| {
            let acquired_at =
                record.expires_at?.micros().checked_sub(i64::try_from(note.lease).ok()?)?;
            Timestamp::from_micros(acquired_at).ok()
        })
    }
}
