//! The exit codes, which scripts can rely on.

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The command succeeded.
    Success,
    /// The command found a problem, or failed.
    Failure,
    /// The arguments are invalid.
    Usage,
    /// The store does not exist, or cannot be reached or opened.
    NoStore,
    /// The store refused: there was a conflict, or the subject is in the wrong state. Nothing was
    /// done.
    Refused,
}

impl ExitStatus {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NoStore => 3,
            Self::Refused => 4,
        }
    }
}
