//! Name of a scope, for errors, logs and the store.

use std::fmt;

use tidelock_store::{RecordKey, Result};

use super::keys;
use super::kind::ScopeKind;

/// Name of a scope, displayed as `kind/id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    key: RecordKey,
    /// Length of the key's prefix before the kind.
    skip: usize,
}

impl Name {
    pub(super) fn new(kind: &ScopeKind, id: &str) -> Result<Self> {
        let key = keys::document(kind, id)?;
        let skip = key.as_str().len() - (kind.name().len() + 1 + id.len());
        Ok(Self { key, skip })
    }

    pub(super) fn key(&self) -> &RecordKey {
        &self.key
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key.as_str()[self.skip..])
    }
}
