//! What a commit answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidelock::Timestamp;
use tidelock::store::{Committed, EventId, Position, RecordKey, Revision, StreamName, Version};
use utoipa::ToSchema;

use super::super::rates::RateUseDto;

/// The result of a commit, for each part that has one, in the order of the request.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct CommitResponse {
    /// When it was committed, by the store's clock. Absent if an earlier attempt was committed
    /// whose response was lost with its server; so are the numbers that the commit gave out.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) at: Option<Timestamp>,
    /// Whether it was committed by an earlier attempt.
    pub(super) replayed: bool,
    /// The appended events.
    pub(super) appends: Vec<CommitAppendDto>,
    /// The written records.
    pub(super) records: Vec<CommitRecordDto>,
    /// The changed scopes.
    pub(super) scopes: Vec<CommitScopeDto>,
    /// The grants: keep those that may have to be refunded.
    #[schema(value_type = Vec<Object>)]
    pub(super) quotas: Vec<Value>,
    /// The use of the rate limits.
    pub(super) rates: Vec<RateUseDto>,
}

/// Events that were appended to a stream.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CommitAppendDto {
    /// The stream.
    #[schema(value_type = String)]
    pub(super) stream: StreamName,
    /// The ids of the events, in their order.
    #[schema(value_type = Vec<String>)]
    pub(super) events: Vec<EventId>,
    /// The version of the last one.
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub(super) version: Option<Version>,
    /// The feed position of the last one.
    #[schema(value_type = Option<u64>)]
    pub(super) position: Option<Position>,
}

/// A record that was written.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CommitRecordDto {
    /// Its key.
    #[schema(value_type = String)]
    pub(super) key: RecordKey,
    /// Its new revision; absent if there was nothing to delete.
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub(super) revision: Option<Revision>,
    /// The sum, if it was added to.
    pub(super) sum: Option<i64>,
}

/// A scope that was changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CommitScopeDto {
    /// Its kind.
    pub(super) kind: String,
    /// Its id.
    pub(super) id: String,
    /// The change's value: the sum, the length of a list, whether an entry existed.
    pub(super) value: Value,
}

impl CommitResponse {
    /// What is known before the commit, and told to a repeated request if the rest is lost.
    pub(super) fn replayed() -> Self {
        Self { replayed: true, ..Self::default() }
    }

    /// Adds what the commit gave out.
    pub(super) fn complete(&mut self, committed: Option<&Committed>) {
        let Some(committed) = committed else { return };
        (self.at, self.replayed) = (Some(committed.at), false);
        for shown in &mut self.appends {
            let made = committed.appends.iter().find(|made| made.stream == shown.stream);
            shown.version = made.map(|made| made.version);
            shown.position = made.and_then(|made| made.positions).map(|(_, last)| last);
        }
        for shown in &mut self.records {
            let made = committed.writes.iter().find(|made| made.key == shown.key);
            shown.revision = made.and_then(|made| made.revision);
            shown.sum = made.and_then(|made| made.sum);
        }
    }
}
