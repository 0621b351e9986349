//! The exit codes, which scripts may rely on.

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what was asked for.
    Well,
    /// It looked, and found something that is not as it should be; or it failed.
    Badly,
    /// What was asked for makes no sense.
    Usage,
    /// The store is not there, or cannot be reached or opened.
    NoStore,
    /// The store refused: somebody else was first, or the thing is not such that this can be done
    /// to it. Nothing was done.
    Refused,
}

impl Ending {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Badly => 1,
            Self::Usage => 2,
            Self::NoStore => 3,
            Self::Refused => 4,
        }
    }
}
