//! How a command ends when it does not end well: what happened, to which thing, and what to do.

use std::error::Error;
use std::io;

use tidelock::{Advice, ErrorKind, StoreError};

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense.
    #[error("{what}")]
    Usage { what: String, hint: String },
    /// The store gave no answer.
    #[error("{what}")]
    Store { what: String, source: StoreError },
    /// Something that Tidelock promises was not so.
    #[error("{0}")]
    Broken(String),
    /// The command could not get what it needs of the machine, or not write its answer.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<StoreError> for Failure {
    fn from(source: StoreError) -> Self {
        Self::Store { what: source.to_string(), source }
    }
}

impl Failure {
    /// A store that cannot be opened; a URL that cannot mean a store is the caller's mistake.
    pub(crate) fn open(url: &str, source: StoreError) -> Self {
        let what = format!("cannot open store {url:?}: {}", source.context());
        match source.kind() {
            ErrorKind::Invalid => {
                let of_a_known_kind = url.starts_with("memory:") || url.starts_with("sqlite:");
                let hint = if of_a_known_kind { "another store" } else { "give memory: or sqlite:PATH" };
                Self::Usage { what, hint: hint.into() }
            }
            _ => Self::Store { what, source },
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            _ if self.is_closed_output() => 0,
            _ => 1,
        }
    }

    /// Tells the person at the terminal.
    pub(crate) fn report(&self) {
        if self.is_closed_output() {
            return;
        }
        // With standard error gone too there is nobody left to tell; the exit code remains.
        let _ = self.write(&mut io::stderr().lock());
    }

    fn write(&self, to: &mut impl io::Write) -> io::Result<()> {
        writeln!(to, "error: {self}")?;
        let mut source = self.cause();
        while let Some(cause) = source {
            writeln!(to, "  because: {cause}")?;
            source = cause.source();
        }
        writeln!(to, "  try: {}", self.hint())
    }

    /// What the database said; the store's own error is in the first line already.
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store { source, .. } => source.source(),
            _ => None,
        }
    }

    fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. } => hint,
            Self::Store { source, .. } => match (source.kind(), source.advice()) {
                (ErrorKind::Full, _) => {
                    "make room where the store keeps its data, then the same command again"
                }
                (ErrorKind::Incompatible, _) => "another path",
                (_, Advice::Never) => "another store, or tidelock --help",
                (_, Advice::Later | Advice::Unknown) => "the same command again",
            },
            Self::Broken(_) => "the same command again, and please report this with its output: it is a bug",
            Self::Io(_) => "the same command again, where files can be written",
        }
    }

    /// The reader of a pipe has seen enough (`tidelock demo | head -1`). That is no failure.
    fn is_closed_output(&self) -> bool {
        matches!(self, Self::Io(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}
