//! Index ranges: runs with a common key prefix, newest first.

use tidelock_store::{RecordKey, RecordQuery, Result, Store, StoreError, StoreExt};

use super::{RunCursor, RunFilter};
use crate::runs::keys;

/// A key prefix; the rest of the key is the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    prefix: String,
}

impl Range {
    /// The ranges that contain all matching runs. An attribute is more selective than a state, so
    /// it is preferred.
    pub(super) async fn all(store: &dyn Store, filter: &RunFilter) -> Result<Vec<Self>> {
        if let Some((name, value)) = filter.attributes.first_key_value() {
            return Ok(vec![Self { prefix: keys::attribute_of(name, value) }]);
        }
        let mut ranges = Vec::new();
        for state in filter.states() {
            match &filter.workflow {
                Some(Ok(workflow)) => {
                    ranges.push(Self { prefix: keys::index_of(*state, workflow) });
                }
                Some(Err(problem)) => return Err(StoreError::invalid(problem.to_string())),
                None => ranges.extend(Self::within(store, &keys::index_in(*state)).await?),
            }
        }
        Ok(ranges)
    }

    /// The ranges of all workflows in a state, found by skip scan.
    async fn within(store: &dyn Store, state: &str) -> Result<Vec<Self>> {
        let (mut ranges, mut query) = (Vec::new(), RecordQuery::prefix(state).limit(1));
        while let Some(first) = store.rows(query.clone()).next().await? {
            let Some(prefix) = keys::range_of(&first.key) else { break };
            query = query.after(keys::behind(prefix)?);
            ranges.push(Self { prefix: prefix.to_owned() });
        }
        Ok(ranges)
    }

    /// The next cursors in this range, at most one page.
    pub(super) async fn scan(
        &self,
        store: &dyn Store,
        filter: &RunFilter,
        after: Option<&RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunCursor>> {
        let (prefix, after) = (self.prefix.clone(), self.from(filter, after)?);
        let mut records = store.rows(RecordQuery { prefix, after, limit });
        let mut cursors = Vec::new();
        while cursors.len() < limit
            && let Some(record) = records.next().await?
        {
            let Some((started_at, run)) = keys::index_position(&record.key, &self.prefix) else {
                continue;
            };
            if filter.since.is_some_and(|since| started_at < since) {
                break;
            }
            cursors.push(RunCursor::new(started_at, run));
        }
        Ok(cursors)
    }

    /// The key to start after: the end of the last page, or the newest match.
    fn from(&self, filter: &RunFilter, after: Option<&RunCursor>) -> Result<Option<RecordKey>> {
        match (after, filter.before) {
            (Some(cursor), _) => {
                Ok(Some(keys::index_key(&self.prefix, cursor.age.0, cursor.run.as_str())?))
            }
            (None, Some(before)) => Ok(Some(keys::before(&self.prefix, before)?)),
            (None, None) => Ok(None),
        }
    }
}
