//! Last-write-wins register: for values where losing a concurrent change does not matter.
//!
//! A display name or an avatar, not a balance. The name makes the choice explicit.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, ExpectedRevision, RawJson, RecordWrite, StoreExt};

use super::{ClaimError, ClaimKey, Claims, keys};

/// A last-write-wins register.
#[derive(Debug, Clone)]
pub struct LwwRegister {
    claims: Claims,
    key: ClaimKey,
}

impl LwwRegister {
    pub(super) fn new(claims: Claims, name: &str) -> Self {
        Self { claims, key: ClaimKey::new(keys::LAST_WRITE, &name) }
    }

    /// Writes the value unconditionally.
    ///
    /// # Errors
    /// `Store` if the store fails, or the value cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let avatar = tidelock.register("avatar:ada");
    /// avatar.put("cat.png").await?;
    /// assert_eq!(avatar.get::<String>().await?.as_deref(), Some("cat.png"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        // An unconditional write cannot conflict.
        let _written = self.claims.send(&Commit::new().write(self.part(value)?)).await?;
        Ok(())
    }

    /// Returns the part of a commit that writes the value.
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

    /// Returns the value written last, if any.
    ///
    /// # Errors
    /// `Unreadable` if it is not a `T`; `Store` if the store fails.
    pub async fn get<T: DeserializeOwned>(&self) -> Result<Option<T>, ClaimError> {
        let slot = self.claims.store().get_one(&keys::last_write(&self.key)?).await?;
        let read = slot.into_live().map(|record| record.value.to()).transpose();
        read.map_err(|source| ClaimError::Unreadable { key: self.key.clone(), source })
    }
}
