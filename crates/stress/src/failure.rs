//! Why a run could not be made: what happened, to which thing, and what to do.
//!
//! What a run found out about the store is no failure of the run; that is a
//! [`Finding`](crate::finding::Finding).

use std::io;

use tidelock::StoreError;

use crate::caller::Bug;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense.
    #[error("{what}")]
    Usage { what: String, hint: String },
    #[error("the supervisor cannot use the store: {0}")]
    Store(#[from] StoreError),
    /// A worker, a server or a proxy did not do what it was told.
    #[error("{0}")]
    Stage(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Bug> for Failure {
    fn from(bug: Bug) -> Self {
        Self::Stage(format!("the supervisor cannot go on: {bug}"))
    }
}

impl From<tidelock_test_postgres::Failure> for Failure {
    fn from(failure: tidelock_test_postgres::Failure) -> Self {
        Self::Stage(failure.to_string())
    }
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            _ => 1,
        }
    }

    /// Tells the person at the terminal.
    pub(crate) fn report(&self) {
        let hint = match self {
            Self::Usage { hint, .. } => format!("\n  try: {hint}"),
            _ => String::new(),
        };
        // With standard error gone there is nobody left to tell; the exit code remains.
        let _ =
            io::Write::write_all(&mut io::stderr(), format!("error: {self}{hint}\n").as_bytes());
    }
}
