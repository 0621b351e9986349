//! Paged listing of the scopes in a store, for administration.

use std::sync::Arc;

use serde::Serialize;
use tidelock_store::{
    RawJson, Record, RecordKey, RecordQuery, Revision, Store, StoreExt, Timestamp,
};

use super::keys;
use crate::handle::Tidelock;
use crate::list::{List, Page};

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

/// Selects scopes by kind and id. The default selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeFilter {
    kind: Option<String>,
    id_prefix: String,
}

impl ScopeFilter {
    /// Selects the scopes of every kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the scopes of the kind with this name.
    pub fn kind(name: impl Into<String>) -> Self {
        Self { kind: Some(name.into()), ..Self::default() }
    }

    /// Selects only the scopes of the kind whose id begins with `prefix`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = prefix.into();
        self
    }
}

/// The scopes of a store, for administration.
#[derive(Debug, Clone)]
pub struct Scopes {
    store: Arc<dyn Store>,
}

impl Tidelock {
    /// Returns the view of all scopes of the store, for administration.
    pub fn scopes(&self) -> Scopes {
        Scopes { store: self.store().clone() }
    }
}

impl Scopes {
    /// Lists scopes, ordered by kind and id.
    pub fn list(&self, filter: &ScopeFilter) -> List<ScopeInfo, RecordKey> {
        let prefix = keys::documents(filter.kind.as_deref(), &filter.id_prefix);
        let store = self.store.clone();
        List::new(move |after, limit| {
            let (store, prefix) = (store.clone(), prefix.clone());
            async move {
                let page = store.full_page(RecordQuery { prefix, after, limit }).await?;
                let items = page.records.into_iter().filter_map(ScopeInfo::of).collect();
                Ok(Page { items, next: page.next })
            }
        })
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
