//! What a commit can be fenced by.

use tidelock_store::{Commit, LeaseToken};

use crate::claims::{AttachedClaim, ClaimKind, HeldClaim};
use crate::error::Result;

/// A lock, claim or lease that a commit can be fenced by: see [`Tx::fence`](crate::Tx::fence).
pub trait Fenced: sealed::Sealed {
    /// The parts of a commit that hold only while it is held.
    #[doc(hidden)]
    fn fence_parts(&self) -> Result<Commit>;
}

mod sealed {
    pub trait Sealed {}
}

impl<K: ClaimKind> sealed::Sealed for HeldClaim<K> {}

impl<K: ClaimKind> Fenced for HeldClaim<K> {
    fn fence_parts(&self) -> Result<Commit> {
        Ok(Commit { guards: self.guards(), ..Commit::new() })
    }
}

impl<K> sealed::Sealed for AttachedClaim<K> {}

impl<K> Fenced for AttachedClaim<K> {
    fn fence_parts(&self) -> Result<Commit> {
        Ok(Commit { guards: vec![self.guard()?], ..Commit::new() })
    }
}

impl sealed::Sealed for LeaseToken {}

impl Fenced for LeaseToken {
    fn fence_parts(&self) -> Result<Commit> {
        Ok(Commit::new().fenced_by(self.clone()))
    }
}
