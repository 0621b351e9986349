//! Errors of a run: what happened, to what, and what to do.

use std::error::Error;
use std::io;

use tidelock::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid usage.
    #[error("{what}")]
    Usage { what: String, hint: String },
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    #[error("the baseline failed: {0}")]
    BareLoop(#[from] rusqlite::Error),
    #[error("PostgreSQL failed: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("there is no server to measure on: {0}")]
    Server(#[from] tidelock_test_postgres::Failure),
    /// The store gave a wrong answer for this workload: its figures would be meaningless.
    #[error("the store gave a wrong answer: {0}")]
    Answer(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            _ if self.is_closed_output() => 0,
            _ => 1,
        }
    }

    /// Prints the error to standard error.
    pub(crate) fn report(&self) {
        if self.is_closed_output() {
            return;
        }
        // Without standard error only the exit code remains.
        let _ = self.write(&mut io::stderr().lock());
    }

    fn write(&self, to: &mut impl io::Write) -> io::Result<()> {
        writeln!(to, "error: {self}")?;
        if let Some(cause) = self.cause() {
            writeln!(to, "  because: {cause}")?;
        }
        writeln!(to, "  try: {}", self.hint())
    }

    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Postgres(error) => error.source(),
            _ => None,
        }
    }

    fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. } => hint,
            Self::Store(_) | Self::BareLoop(_) | Self::Io(_) => {
                "a path on a local disk with some gigabytes of room"
            }
            Self::Server(_) => "the URL of a server that is running",
            Self::Postgres(_) => {
                "a server on this machine with 200 connections to spare, and a user who may create schemas"
            }
            Self::Answer(_) => "the conformance suite on this store: it is a bug",
        }
    }

    /// Whether the output was closed by its reader, which is not a failure.
    fn is_closed_output(&self) -> bool {
        matches!(self, Self::Io(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}
