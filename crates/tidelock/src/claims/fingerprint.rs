//! Request fingerprint: a digest that distinguishes a retry from another request with the same key.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, Result};
use uuid::Uuid;

/// Digest of a request. Only this is stored, never the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Uuid);

impl Fingerprint {
    /// Computes the fingerprint of a value; the order of map keys does not matter.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be written as JSON, `LimitExceeded` if it is nested too
    /// deeply.
    pub fn of(request: &(impl Serialize + ?Sized)) -> Result<Self> {
        // Converted to a `Value`, whose maps are sorted.
        let sorted: serde_json::Value =
            RawJson::new(request).map_err(|e| e.about("request"))?.to()?;
        Ok(Self::of_bytes(sorted.to_string().as_bytes()))
    }

    /// Computes the fingerprint of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Uuid::new_v5(&Uuid::NAMESPACE_OID, bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_order_of_map_keys_does_not_matter() {
        let forward: HashMap<u32, u32> = (0..100).map(|n| (n, n)).collect();
        let backward: HashMap<u32, u32> = (0..100).rev().map(|n| (n, n)).collect();
        assert_eq!(Fingerprint::of(&forward).unwrap(), Fingerprint::of(&backward).unwrap());
        assert_ne!(Fingerprint::of("a").unwrap(), Fingerprint::of("b").unwrap());
    }
}
