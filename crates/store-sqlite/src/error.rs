//! Error mapping: what SQLite's errors mean to a caller.
//!
//! No type of rusqlite leaves this crate except as the source of an error.

use rusqlite::ErrorCode;
use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

/// A statement failed before the transaction was committed: nothing was written.
pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    translate(error, RetryAdvice::Later)
}

/// The COMMIT itself failed. When the flush failed, it is unknown what reached the disk; when the
/// disk was full, the mark that makes a transaction valid was not written.
pub(crate) fn commit_failed(error: rusqlite::Error) -> StoreError {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => RetryAdvice::Later,
        _ => RetryAdvice::Unknown,
    };
    translate(error, advice)
}

fn translate(error: rusqlite::Error, advice: RetryAdvice) -> StoreError {
    let (kind, what) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            StoreErrorKind::Unavailable,
            "locked by another process for longer than busy_timeout_ms allows",
        ),
        Some(ErrorCode::DiskFull) => {
            (StoreErrorKind::Full, "no room is left on the disk, make some")
        }
        Some(ErrorCode::SystemIoFailure) => {
            (StoreErrorKind::Storage, "the disk failed to read or write")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            StoreErrorKind::Storage,
            "the file, or its folder, cannot be opened and written by this user",
        ),
        Some(ErrorCode::NotADatabase) => {
            (StoreErrorKind::Incompatible, "the file is not an SQLite database")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            StoreErrorKind::Corrupt,
            "the file is damaged: restore it from a backup (`PRAGMA integrity_check` says more)",
        ),
        _ => (StoreErrorKind::Storage, "SQLite refused a statement"),
    };
    let hopeless = [ErrorCode::ReadOnly, ErrorCode::PermissionDenied, ErrorCode::CannotOpen];
    let advice = match kind {
        StoreErrorKind::Corrupt | StoreErrorKind::Incompatible => RetryAdvice::Never,
        _ if error.sqlite_error_code().is_some_and(|code| hopeless.contains(&code)) => {
            RetryAdvice::Never
        }
        _ => advice,
    };
    StoreError::new(kind, advice, StoreOperation::Commit, what).caused_by(error)
}

/// Data read from the file should have been validated when it was written.
pub(crate) fn corrupt(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Invalid | StoreErrorKind::LimitExceeded => {
            StoreError::corrupt(format!("a stored row makes no sense: {}", error.context()))
                .caused_by(error)
        }
        _ => error,
    }
}

/// The store's threads have ended.
pub(crate) fn closed(operation: StoreOperation) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Never,
        operation,
        "the store was closed: open it again",
    )
}

/// Whether an error must roll back the whole group. A caller's own mistake does not.
pub(crate) fn spoils_the_group(error: &StoreError) -> bool {
    !matches!(
        error.kind(),
        StoreErrorKind::Invalid
            | StoreErrorKind::LimitExceeded
            | StoreErrorKind::IdempotencyMismatch
    )
}

/// The error that rolled back a group of writes.
pub(crate) struct GroupFailure {
    pub(crate) failure: StoreError,
    /// How many calls shared it.
    pub(crate) calls: usize,
}

impl GroupFailure {
    /// The error for each caller of the group.
    pub(crate) fn to_error(&self) -> StoreError {
        let failure = self.failure.clone();
        match self.calls {
            1 => failure,
            calls => {
                failure.about(format_args!("the transaction that {calls} calls shared failed"))
            }
        }
    }
}
