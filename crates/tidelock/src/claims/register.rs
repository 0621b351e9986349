//! Last write wins, by name: for what does not matter if somebody else's change is lost.
//!
//! A name and an avatar, not a balance. Whoever uses this has said so in so many words.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, ExpectedRevision, RawJson, RecordWrite, StoreExt};

use super::{ClaimError, ClaimKey, Claims, keys};

/// A value that whoever writes last determines.
#[derive(Debug, Clone)]
pub struct LwwRegister {
    claims: Claims,
    key: ClaimKey,
}

impl LwwRegister {
    pub(super) fn new(claims: Claims, name: &impl fmt::Display) -> Self {
        Self { claims, key: ClaimKey::new(keys::LAST_WRITE, name) }
    }

    /// Writes it, whatever was there.
    ///
    /// # Errors
    /// `Store` if the store fails, or the value cannot be stored.
    pub async fn put(&self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        // Nothing is expected, so nothing can be in its way.
        let _written = self.claims.send(&Commit::new().write(self.part(value)?)).await?;
        Ok(())
    }

    /// The part of a commit that writes it.
    ///
    /// # Errors
    /// `Store` if the value cannot be stored.
    pub fn part(&self, value: &(impl Serialize + ?Sized)) -> Result<RecordWrite, ClaimError> {
        Ok(RecordWrite::put(
            &keys::last_write(&self.key)?,
            ExpectedRevision::Any,
            RawJson::new(value)?,
        ))
    }

    /// What was written last, if anything was.
    ///
    /// # Errors
    /// `Unreadable` if it is not a `T`.
    pub async fn get<T: DeserializeOwned>(&self) -> Result<Option<T>, ClaimError> {
        let slot = self.claims.store().get_one(&keys::last_write(&self.key)?).await?;
        let read = slot.into_live().map(|record| record.value.to()).transpose();
        read.map_err(|source| ClaimError::Unreadable { key: self.key.clone(), source })
    }
}
