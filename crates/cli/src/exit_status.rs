//! The exit codes, which scripts may rely on.

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// It did what was asked for.
    Success,
    /// It looked, and found something that is not as it should be; or it failed.
    Failure,
    /// What was asked for makes no sense.
    Usage,
    /// The store is not there, or cannot be reached or opened.
    NoStore,
    /// The store refused: somebody else was first, or the thing is not such that this can be done
    /// to it. Nothing was done.
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
