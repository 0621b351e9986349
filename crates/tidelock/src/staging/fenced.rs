//! What a commit can be fenced by.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, LeaseToken};

use crate::claims::{AttachedClaim, AttachedKey, ClaimGuard, LockGuard};
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

macro_rules! fenced_by_guard {
    ($(($($generics:tt)*) $held:ty => |$it:ident| $guard:expr;)+) => {$(
        impl<$($generics)*> sealed::Sealed for $held {}

        impl<$($generics)*> Fenced for $held {
            fn fence_parts(&self) -> Result<Commit> {
                let $it = self;
                Ok(Commit { guards: vec![$guard], ..Commit::new() })
            }
        }
    )+};
}

fenced_by_guard! {
    () LockGuard => |held| held.guard();
    (T: Serialize + DeserializeOwned) ClaimGuard<T> => |held| held.guard();
    () AttachedClaim => |held| held.guard()?;
    () AttachedKey => |held| held.guard()?;
}

impl sealed::Sealed for LeaseToken {}

impl Fenced for LeaseToken {
    fn fence_parts(&self) -> Result<Commit> {
        Ok(Commit::new().fenced_by(self.clone()))
    }
}
