//! Paged listing of the scopes in a store, for administration.

use serde::Serialize;
use tidelock_store::{
    RawJson, Record, RecordKey, RecordQuery, Result, Revision, StoreExt, Timestamp,
};

use super::keys;
use crate::handle::Tidelock;

/// A scope in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeInfo {
    /// The name of its kind.
    pub kind: String,
    /// Its id within the kind.
    pub id: String,
    /// Number of writes.
    pub revision: Revision,
    /// When it expires unless it is changed before.
    pub expires_at: Option<Timestamp>,
    /// Its document.
    pub state: RawJson,
}

/// A page of scopes, ordered by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopePage {
    /// The scopes.
    pub scopes: Vec<ScopeInfo>,
    /// Cursor of the next page, if there may be more.
    pub next: Option<RecordKey>,
}

impl Tidelock {
    /// Lists scopes by kind and id prefix, page by page; all kinds if none is given.
    ///
    /// # Errors
    /// `LimitExceeded` if `limit` is larger than a page; otherwise errors of the store.
    pub async fn scopes(
        &self,
        kind: Option<&str>,
        id_prefix: &str,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<ScopePage> {
        let query = RecordQuery { prefix: keys::documents(kind, id_prefix), after, limit };
        let page = self.store().full_page(query).await?;
        let scopes = page.records.into_iter().filter_map(ScopeInfo::of).collect();
        Ok(ScopePage { scopes, next: page.next })
    }
}

impl ScopeInfo {
    fn of(record: Record) -> Option<Self> {
        let (kind, id) = keys::named(&record.key)?;
        Some(Self {
            kind: kind.to_owned(),
            id: id.to_owned(),
            revision: record.revision,
            expires_at: record.expires_at,
            state: record.value,
        })
    }
}
