//! The scopes of a store, for whoever looks after it: which there are, of every kind, page by page.

use serde::Serialize;
use tidelock_store::{
    RawJson, Record, RecordKey, RecordQuery, Result, Revision, StoreExt, Timestamp,
};

use super::keys;
use crate::handle::Tidelock;

/// A scope in the store, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeInfo {
    /// The name of its kind.
    pub kind: String,
    /// Its id among those of its kind.
    pub id: String,
    /// How often it was changed.
    pub revision: Revision,
    /// When it goes away, unless it is changed before.
    pub expires_at: Option<Timestamp>,
    /// Its document.
    pub state: RawJson,
}

/// Scopes by kind and id, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopePage {
    /// The scopes.
    pub scopes: Vec<ScopeInfo>,
    /// List on after this, if there may be more.
    pub next: Option<RecordKey>,
}

impl Tidelock {
    /// A page of the scopes in the store whose kind is this and whose ids begin with this; of every
    /// kind, if none is named.
    ///
    /// # Errors
    /// `LimitExceeded` if more are asked for at once than a page has; otherwise what the store
    /// says.
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
