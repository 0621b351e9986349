//! Record reads of the in-memory store.

use std::ops::Bound;

use super::state::State;
use crate::clock::Timestamp;
use crate::limits;
use crate::names::RecordKey;
use crate::records::{RecordPage, RecordQuery, Slot};

impl State {
    pub(super) fn slot(&self, key: &RecordKey, now: Timestamp) -> Slot {
        self.records.get(key).map_or(Slot::Absent, |row| row.slot(key, now))
    }

    pub(super) fn scan(&self, query: &RecordQuery, now: Timestamp) -> RecordPage {
        let mut page = RecordPage { records: Vec::new(), next: None };
        let from = match &query.after {
            Some(key) if key.as_str() >= query.prefix.as_str() => Bound::Excluded(key.as_str()),
            _ => Bound::Included(query.prefix.as_str()),
        };
        let rows = self.records.range::<str, _>((from, Bound::Unbounded));
        let mut last: Option<&RecordKey> = None;
        for (seen, (key, row)) in
            rows.take_while(|(key, _)| key.as_str().starts_with(&query.prefix)).enumerate()
        {
            if page.records.len() == query.limit || seen == limits::FEED_SCAN {
                page.next = last.cloned();
                break;
            }
            page.records.extend(row.slot(key, now).into_live());
            last = Some(key);
        }
        page
    }
}
