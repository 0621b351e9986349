//! Errors of a run: what happened, to what, and what to do.
//!
//! A violation by the store is not an error of the run; that is a
//! [`Finding`](crate::finding::Finding).

use std::io;

use tidelock::store::StoreError;

use crate::caller::Bug;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid usage.
    #[error("{what}")]
    Usage { what: String, hint: String },
    #[error("the supervisor cannot use the store: {0}")]
    Store(#[from] StoreError),
    /// A worker, a server or a proxy did not do what it was told.
    #[error("{0}")]
    Setup(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Bug> for Failure {
    fn from(bug: Bug) -> Self {
        Self::Setup(format!("the supervisor cannot go on: {bug}"))
    }
}

impl From<tidelock_test_postgres::Failure> for Failure {
    fn from(failure: tidelock_test_postgres::Failure) -> Self {
        Self::Setup(failure.to_string())
    }
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            _ => 1,
        }
    }

    /// Prints the error to standard error.
    pub(crate) fn report(&self) {
        let hint = match self {
            Self::Usage { hint, .. } => format!("\n  try: {hint}"),
            _ => String::new(),
        };
        // Without standard error only the exit code remains.
        let _ =
            io::Write::write_all(&mut io::stderr(), format!("error: {self}{hint}\n").as_bytes());
    }
}
