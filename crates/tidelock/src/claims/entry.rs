//! What is written in the two records of a claim.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, Record, Result, StoreError, Timestamp, WorkerName};
use uuid::Uuid;

use super::{Claims, Fingerprint};

/// Who has a claim, and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) state: State,
    /// Tells one try to claim from every other, so that whoever does not hear how a commit ended
    /// can see it.
    pub(super) token: Uuid,
    pub(super) by: WorkerName,
    /// The id of what was asked for, so that whoever asks for it again finds it to be their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fingerprint: Option<Fingerprint>,
    /// How long its result is to be kept, in microseconds; indefinitely, if this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    /// When it was claimed; known once something came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Timestamp>,
    /// What came of it. Nothing is as good as `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<RawJson>,
    /// Why nothing did.
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
    /// Somebody is at it.
    pub(super) fn pending(claims: &Claims, fingerprint: Option<Fingerprint>) -> Self {
        let (token, by) = (Uuid::now_v7(), claims.by.clone());
        let operation = claims.operation.as_ref().map(|operation| operation.id.clone());
        let (ttl, at, value, error) = (None, None, None, None);
        Self { state: State::Pending, token, by, operation, fingerprint, ttl, at, value, error }
    }

    /// The same, with a result that is kept for so long.
    pub(super) fn with_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl.map(|ttl| u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
        self
    }

    /// How long its result is to be kept.
    pub(super) fn ttl(&self) -> Option<Duration> {
        self.ttl.map(Duration::from_micros)
    }

    /// The same claim, and what came of it.
    pub(super) fn done(&self, value: RawJson, at: Timestamp) -> Self {
        Self { state: State::Done, value: Some(value), at: Some(at), ..self.clone() }
    }

    /// The same claim, and why nothing came of it.
    pub(super) fn failed(&self, error: String, at: Timestamp) -> Self {
        Self { state: State::Failed, error: Some(error), at: Some(at), ..self.clone() }
    }

    pub(super) fn read(record: &Record) -> Result<Self> {
        record.value.to().map_err(|e| StoreError::corrupt(format!("record {:?}: {e}", record.key)))
    }

    pub(super) fn json(&self) -> Result<RawJson> {
        RawJson::new(self)
    }

    /// When it was claimed, by the clock of the claimant: for people, and for nothing else.
    pub(super) fn begun(&self) -> Option<Timestamp> {
        let (seconds, nanos) = self.token.get_timestamp()?.to_unix();
        let micros = i64::try_from(seconds)
            .ok()?
            .checked_mul(1_000_000)?
            .checked_add(i64::from(nanos / 1_000))?;
        Timestamp::from_micros(micros).ok()
    }

    /// Whether this is what that asks for, done for whoever asked for it before and as far as it
    /// was then.
    pub(super) fn is_same_operation(&self, asked: &Self) -> bool {
        self.operation.is_some() && self.operation == asked.operation && self.state == asked.state
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state == State::Pending
    }

    /// What came of it.
    pub(super) fn value(&self) -> Result<RawJson> {
        self.value.clone().map_or_else(|| RawJson::new(&()), Ok)
    }

    /// Whether this is certainly another request.
    pub(super) fn differs(&self, asked: Option<Fingerprint>) -> bool {
        matches!((self.fingerprint, asked), (Some(first), Some(asked)) if first != asked)
    }
}

/// What is in the record that expires.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LeaseNote {
    /// For how long it was written, in microseconds.
    lease: u64,
    /// When the claim was won; left out when that was when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

impl LeaseNote {
    pub(super) fn json(lease: Duration, since: Option<Timestamp>) -> Result<RawJson> {
        let lease = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        RawJson::new(&Self { lease, since })
    }

    /// When the claim was won.
    pub(super) fn since(record: &Record) -> Option<Timestamp> {
        let note: Self = record.value.to().ok()?;
        note.since.or_else(|| {
            let begun = record.expires_at?.micros().checked_sub(i64::try_from(note.lease).ok()?)?;
            Timestamp::from_micros(begun).ok()
        })
    }
}
