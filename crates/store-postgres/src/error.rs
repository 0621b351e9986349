//! Error mapping: what PostgreSQL's errors mean to a caller.
//!
//! No type of tokio-postgres leaves this crate except as the source of an error, and through
//! [`PgTx`](crate::PgTx).

use std::error::Error;

use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio_postgres::error::{Severity, SqlState};

use crate::executor::ExecutorError;

type PgError = tokio_postgres::Error;

/// A statement failed, and with it its transaction: nothing was written.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn failed(error: PgError) -> StoreError {
    translate(&error, RetryAdvice::Later)
}

/// A statement that commits by itself failed. If the server reported the error, nothing was
/// written; if the connection was lost, it may have been.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn commit_failed(error: PgError) -> StoreError {
    let advice = if is_refusal(&error) { RetryAdvice::Later } else { RetryAdvice::Unknown };
    translate(&error, advice)
}

/// Whether the server reported that it rolled the statement back and continues. Any other error
/// leaves the outcome unknown: a server that shuts down reports that even to sessions whose commit
/// it has just made.
pub(crate) fn is_refusal(error: &PgError) -> bool {
    error.as_db_error().is_some_and(|error| error.parsed_severity() == Some(Severity::Error))
}

/// Whether a retry is likely to succeed: a deadlock, a serialization failure, or a row that another
/// transaction has just created.
pub(crate) fn is_race(error: &PgError) -> bool {
    is_refusal(error) && is_race_code(error.code().map(SqlState::code))
}

/// Whether the database role lacks a privilege.
pub(crate) fn is_denied(error: &StoreError) -> bool {
    sql_state(error) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Whether the server rolled this back to resolve a deadlock.
pub(crate) fn is_deadlock(error: &StoreError) -> bool {
    sql_state(error) == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// The SQLSTATE of the server's error that caused this one.
fn sql_state(error: &StoreError) -> Option<&SqlState> {
    error.source()?.downcast_ref::<Told>()?.code.as_ref()
}

fn translate(error: &PgError, advice: RetryAdvice) -> StoreError {
    let (kind, hopeless, what) = match error.as_db_error() {
        Some(error) => meaning(error.code().code(), error.message()),
        None => {
            (StoreErrorKind::Unavailable, false, "the connection to the server was lost".to_owned())
        }
    };
    let advice = if hopeless && advice == RetryAdvice::Later { RetryAdvice::Never } else { advice };
    StoreError::new(kind, advice, StoreOperation::Commit, what).caused_by(Told::of(error))
}

/// A statement in a caller's transaction failed. Nothing is durable before the caller commits, so
/// the outcome is never unknown.
pub(crate) fn foreign_failed(error: ExecutorError) -> StoreError {
    let (kind, hopeless, what) = match error.code() {
        Some(code) => meaning(code, error.message()),
        None => (
            StoreErrorKind::Unavailable,
            false,
            format!("the connection of the transaction failed: {}", error.message()),
        ),
    };
    let advice = if hopeless { RetryAdvice::Never } else { RetryAdvice::Later };
    StoreError::new(kind, advice, StoreOperation::Commit, what).caused_by(error)
}

/// Whether a code of the server means that a retry is likely to succeed.
pub(crate) fn is_race_code(code: Option<&str>) -> bool {
    matches!(code, Some("40P01" | "40001" | "23505"))
}

/// The kind, whether a retry is pointless, and the message.
fn meaning(code: &str, message: &str) -> (StoreErrorKind, bool, String) {
    let (kind, hopeless, what) = match code {
        "53100" => (StoreErrorKind::Full, false, "no room is left on the server's disk, make some"),
        "53200" | "53300" | "53400" => {
            (StoreErrorKind::Unavailable, false, "the server is short of memory or connections")
        }
        "57014" => (
            StoreErrorKind::Unavailable,
            false,
            "the statement was cancelled, by hand or by statement_timeout",
        ),
        "25006" => (
            StoreErrorKind::Unavailable,
            false,
            "the server takes no writes: it is a standby, or set to read only",
        ),
        "42501" => (
            StoreErrorKind::Storage,
            true,
            "the database role may not do this: give it the application role (docs/guides/postgres.md)",
        ),
        "42P01" | "3F000" | "42883" | "42703" => (
            StoreErrorKind::Incompatible,
            true,
            "a table or function of Tidelock is missing: run the migrations with the owner role",
        ),
        "42P07" | "42723" => (
            StoreErrorKind::Incompatible,
            true,
            "the schema holds something of that name that is not Tidelock's: give the store a schema of its own",
        ),
        "XX001" | "XX002" => (
            StoreErrorKind::Corrupt,
            true,
            "the server found damaged data: restore it from a backup",
        ),
        "40001" | "40P01" | "23505" => (
            StoreErrorKind::Unavailable,
            false,
            "too many others wrote the same rows at the same time",
        ),
        code if code.starts_with("08") || code.starts_with("57P") => {
            (StoreErrorKind::Unavailable, false, "the server ended the connection")
        }
        code if code.starts_with("58") || code.starts_with("XX") => {
            (StoreErrorKind::Storage, false, "the server failed to read or write")
        }
        _ => (StoreErrorKind::Storage, false, "the server refused a statement"),
    };
    (kind, hopeless, format!("{what} ({code}: {message})"))
}

/// The message of the server or the driver, without the row values that the server puts into an
/// error's details.
#[derive(Debug)]
struct Told {
    /// None if the error is the driver's.
    code: Option<SqlState>,
    message: String,
}

impl Told {
    fn of(error: &PgError) -> Self {
        let message = match error.as_db_error() {
            Some(error) => {
                format!("{} {}: {}", error.severity(), error.code().code(), error.message())
            }
            None => chain(error),
        };
        Self { code: error.code().cloned(), message }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Told {}

fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Data read from the database should have been validated when it was written.
pub(crate) fn corrupt(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Invalid | StoreErrorKind::LimitExceeded => {
            StoreError::corrupt(format!("a stored row makes no sense: {}", error.context()))
                .caused_by(error)
        }
        _ => error,
    }
}

/// The store was closed.
pub(crate) fn closed(operation: StoreOperation) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Never,
        operation,
        "the store was closed: open it again",
    )
}
