//! The audit read: what a final read of the store found, after the last write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{EventRef, Slot};

/// What a final read of the store found. What was not read stays empty, and is not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Audit {
    /// The whole feed, in order, if it was read.
    pub feed: Option<Vec<EventRef>>,
    /// Whether the history has every commit that wrote events, so that no event is unexplained.
    pub all_commits: bool,
    /// The streams that were read, whole.
    pub streams: BTreeMap<String, FinalStream>,
    /// The records that were read.
    pub records: BTreeMap<String, Slot>,
    /// The scopes that were read: revision and value.
    pub scopes: BTreeMap<String, Slot>,
    /// For each reaction and target: the ids of the events it has to handle, in order.
    pub to_handle: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// For each reaction and target: the ids of the events whose output is in the store, in order.
    pub handled: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// For each run and step: how often its record is in the store.
    pub recorded: BTreeMap<(String, String), u64>,
    /// How each run ended.
    pub runs: BTreeMap<String, Option<String>>,
    /// Effects of which exactly one is expected: how many are in the store, by name.
    pub effects: BTreeMap<String, u64>,
    /// The results of keys.
    pub results: BTreeMap<String, String>,
    /// Rows of each kind that are left, and the most that there may be.
    pub rows: BTreeMap<String, (u64, u64)>,
    /// What has not finished although nothing keeps it from finishing.
    pub pending: Vec<Pending>,
}

/// A stream as the final read found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalStream {
    /// The events that it holds, in order.
    pub events: Vec<EventRef>,
    /// Its version, if it exists.
    pub version: Option<u64>,
    /// Whether it is closed.
    pub closed: bool,
}

/// What has not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// What: an item, a run, a lock, a reservation, a finding of the doctor.
    pub what: String,
    /// Since when it could have finished, by the store's clock.
    pub since: i64,
    /// The state that it is in.
    pub why: String,
}
