//! Bounds that are checked when a call is made, because what they are about is written only when
//! its work is done.

use std::fmt;
use std::time::Duration;

use tidelock_store::{Result, StoreError, limits};

/// Refuses a time that no store keeps anything for.
pub(crate) fn keeps(what: impl fmt::Display, long: Duration) -> Result<()> {
    let most = limits::HORIZON;
    match long > most {
        true => Err(StoreError::limit(format!("{what} of {long:?}; the limit is {most:?}"))),
        false => Ok(()),
    }
}

/// Refuses an operation's id that tells it from no other.
pub(crate) fn names(operation: &str) -> Result<()> {
    match operation.is_empty() {
        true => Err(StoreError::invalid(
            "the id of the operation is empty; give each operation one of its own",
        )),
        false => Ok(()),
    }
}
