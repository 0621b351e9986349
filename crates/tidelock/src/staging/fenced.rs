//! What a commit can be fenced by.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, Guard, LeaseToken};

use crate::claims::{AttachedClaim, AttachedKey, ClaimGuard, CompoundGuard, LockGuard};
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

macro_rules! fenced_by_guards {
    ($(($($generics:tt)*) $held:ty => |$it:ident| $guards:expr;)+) => {$(
        impl<$($generics)*> sealed::Sealed for $held {}

        impl<$($generics)*> Fenced for $held {
            fn fence_parts(&self) -> Result<Commit> {
                let $it = self;
                let guards: Vec<Guard> = $guards;
                Ok(Commit { guards, ..Commit::new() })
            }
        }
    )+};
}

fenced_by_guards! {
    () LockGuard => |held| vec![held.guard()];
    (T: Serialize + DeserializeOwned) ClaimGuard<T> => |held| vec![held.guard()];
    () CompoundGuard => |held| held.guards();
    () AttachedClaim => |held| vec![held.guard()?];
    () AttachedKey => |held| vec![held.guard()?];
}

impl sealed::Sealed for LeaseToken {}

impl Fenced for LeaseToken {
    fn fence_parts(&self) -> Result<Commit> {
        Ok(Commit::new().fenced_by(self.clone()))
    }
}
