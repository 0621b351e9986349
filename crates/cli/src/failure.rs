//! Errors of a command: what happened, to what, and what to do.

use std::error::Error;
use std::io;

use tidelock::Missing;
use tidelock::closing::CloseError;
use tidelock::reactions::ResetError;
use tidelock::runs::RunError;
use tidelock::store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

use crate::exit_status::ExitStatus;
use crate::output::plain;

/// The result of a command, or of a part of one.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments are invalid.
    #[error("{what}")]
    Usage { what: String, hint: String },
    /// There is no store.
    #[error("{what}")]
    NoStore { what: String, hint: String },
    /// The subject is in the wrong state.
    #[error("{what}")]
    Refused { what: String, hint: String },
    /// The command failed.
    #[error("{what}")]
    Failed { what: String, hint: String },
    /// The store failed.
    #[error("{what}")]
    Store { what: String, source: StoreError },
    /// A promise of Tidelock does not hold.
    #[error("{0}")]
    Broken(String),
    /// A system call failed, or the output could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<StoreError> for Failure {
    fn from(source: StoreError) -> Self {
        Self::Store { what: source.to_string(), source }
    }
}

impl From<tidelock::Error> for Failure {
    fn from(error: tidelock::Error) -> Self {
        match error.details::<StoreError>() {
            Some(source) => source.clone().into(),
            None => Self::failed(error.to_string(), "tidelock doctor, to see what is wrong"),
        }
    }
}

impl From<CloseError> for Failure {
    fn from(error: CloseError) -> Self {
        let what = error.to_string();
        let hint = match error {
            CloseError::Store(source) => return source.into(),
            CloseError::Busy { .. } => "the same command again when the other one is done",
            CloseError::Unfinished { .. } => {
                "tidelock reactions, to see what is left to do and why"
            }
            CloseError::Archive { .. } => {
                "the same command again; it continues with what the archive did not accept"
            }
            _ => "tidelock events STREAM, to see what is there",
        };
        Self::Refused { what, hint: hint.into() }
    }
}

impl From<ResetError> for Failure {
    fn from(error: ResetError) -> Self {
        let what = error.to_string();
        match error {
            ResetError::Store(source) => source.into(),
            _ => Self::refused(
                what,
                "the same command with --partial, to handle the remaining events",
            ),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let what = error.to_string();
        match error {
            RunError::Store(source) => source.into(),
            RunError::Name(_) => Self::usage(what, "tidelock runs, to list the existing ones"),
            RunError::Contended { .. } => Self::refused(what, "the same command again"),
            RunError::NoRun { .. } => {
                Self::refused(what, "tidelock runs, to list the existing ones")
            }
            _ => Self::refused(what, "tidelock runs RUN, to see its status"),
        }
    }
}

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Self {
        let hint = match missing {
            Missing::Reaction { .. } => "tidelock reactions --routes, to list the registered ones",
            Missing::Workflow { .. } => "tidelock runs, to list the runs of all workflows",
            Missing::Target { .. } => "tidelock reactions, to list the existing ones",
            _ => "tidelock leases, to list the existing ones",
        };
        Self::refused(missing.to_string(), hint)
    }
}

impl Failure {
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    pub(crate) fn no_store(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NoStore { what: what.into(), hint: hint.into() }
    }

    pub(crate) fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), hint: hint.into() }
    }

    pub(crate) fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: hint.into() }
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(verb: &str, path: &str, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => "another path, or room on this disk",
            io::ErrorKind::InvalidData => "another file: this one is not text",
            _ => "another path, or the rights to this one",
        };
        Self::failed(format!("cannot {verb} {path:?}: {error}"), hint)
    }

    pub(crate) fn ending(&self) -> ExitStatus {
        match self {
            Self::Usage { .. } => ExitStatus::Usage,
            Self::NoStore { .. } => ExitStatus::NoStore,
            Self::Refused { .. } => ExitStatus::Refused,
            Self::Store { source, .. } => ending_of(source),
            _ if self.is_closed_output() => ExitStatus::Success,
            _ => ExitStatus::Failure,
        }
    }

    /// Prints the error to standard error.
    pub(crate) fn report(&self) {
        if self.is_closed_output() {
            return;
        }
        // Without standard error, the exit code remains.
        let _ = self.write(&mut io::stderr().lock());
    }

    fn write(&self, to: &mut impl io::Write) -> io::Result<()> {
        writeln!(to, "error: {}", plain(&self.to_string()))?;
        let mut source = self.cause();
        while let Some(cause) = source {
            writeln!(to, "  because: {}", plain(&cause.to_string()))?;
            source = cause.source();
        }
        writeln!(to, "  try: {}", plain(self.hint()))
    }

    /// The database's message; the store's own error is in the first line already.
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store { source, .. } => source.source(),
            _ => None,
        }
    }

    fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. }
            | Self::NoStore { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Failed { hint, .. } => hint,
            Self::Store { source, .. } => hint_on(source),
            Self::Broken(_) => {
                "the same command again, and please report this with its output: it is a bug"
            }
            Self::Io(_) => "the same command again, where files can be written",
        }
    }

    /// The reader of a pipe has closed it (`tidelock events | head -1`). That is not an error.
    fn is_closed_output(&self) -> bool {
        matches!(self, Self::Io(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn ending_of(error: &StoreError) -> ExitStatus {
    match (error.kind(), error.operation()) {
        (StoreErrorKind::Unavailable, _) | (_, StoreOperation::Open) => ExitStatus::NoStore,
        (StoreErrorKind::Invalid | StoreErrorKind::LimitExceeded, _) => ExitStatus::Usage,
        (StoreErrorKind::IdempotencyMismatch | StoreErrorKind::Rewound, _) => ExitStatus::Refused,
        _ => ExitStatus::Failure,
    }
}

fn hint_on(error: &StoreError) -> &'static str {
    match (error.kind(), error.advice()) {
        (StoreErrorKind::Full, _) => {
            "make room where the store keeps its data, then the same command again"
        }
        (StoreErrorKind::Incompatible, _) => {
            "another store with --store URL, if the message above names no other way"
        }
        (StoreErrorKind::Corrupt, _) => {
            "a copy of it for safety, then a backup; if nothing but Tidelock wrote to it, please report this: it is a bug"
        }
        (StoreErrorKind::Storage, RetryAdvice::Never) => {
            "a user or a role with the right to do this"
        }
        (StoreErrorKind::Invalid, _) if error.operation() == StoreOperation::Open => {
            "to fix that, or another store with --store URL"
        }
        (StoreErrorKind::Invalid | StoreErrorKind::LimitExceeded, _) => {
            "a value within these bounds"
        }
        (StoreErrorKind::Rewound, _) => {
            "a position that the message names, or another store with --store URL"
        }
        (_, RetryAdvice::Never) => "another store, or tidelock --help",
        (_, RetryAdvice::Later | RetryAdvice::Unknown) => "the same command again",
    }
}
