//! A call without an answer, as a worker sees and journals it.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::store::{RetryAdvice, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub(crate) advice: Told,
    pub(crate) why: String,
}

/// The store's advice about a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Never,
    Later,
    Unknown,
}

impl Trouble {
    /// The caller timed out. The call may have happened, or may yet happen.
    pub(crate) fn gave_up_after(patience: Duration) -> Self {
        Self { advice: Told::Unknown, why: format!("no answer within {patience:?}") }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        let advice = match error.advice() {
            RetryAdvice::Never => Told::Never,
            RetryAdvice::Later => Told::Later,
            RetryAdvice::Unknown => Told::Unknown,
        };
        let why = error.source().map_or(error.to_string(), |source| format!("{error}: {source}"));
        Self { advice, why }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
