//! [`Error`]: one error type for code that uses several patterns.
//!
//! Each pattern has an error enum of its own, for callers that branch on its cases. All of them
//! convert into this type with `?`. It says what kind of problem it is, whether a retry can help
//! and whether the outcome is unknown; the pattern's own error stays inside.

use std::error::Error as StdError;
use std::fmt;

use tidelock_store::{Conflict, RetryAdvice, StoreError, StoreErrorKind};

use crate::claims::{
    ClaimError, FingerprintMismatch, LockBusy, OnceError, QuotaExceeded, RateExceeded,
    RefusalReason, Refusals, SingletonTaken,
};
use crate::closing::CloseError;
use crate::events::{ExecuteError, LoadError};
use crate::handler_error::HandlerError;
use crate::reactions::ResetError;
use crate::recorded::{ReadError, Unreadable};
use crate::refusal::unreachable_refusal;
use crate::runs::{InvalidName, RunError, ScheduleError};
use crate::scopes::ScopeError;

/// An error of any cause, boxed.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of a call that fails with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a call of any pattern can fail with.
///
/// # Examples
/// ```
/// # use tidelock::prelude::*;
/// # use tidelock::ErrorKind;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// let tidelock = Tidelock::open("memory:").await?;
/// let error: tidelock::Error = tidelock.runs().run("order-7").get().await.unwrap_err().into();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert!(!error.is_retryable());
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    is_retryable: bool,
    is_outcome_unknown: bool,
    cause: BoxError,
}

/// What kind of problem an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The application's own code said no: a decision or a mutator.
    Refused,
    /// A stream, record or scope is not as the caller expected it.
    Conflict,
    /// Concurrent writers won every attempt.
    Contended,
    /// The time for the call was over.
    TimedOut,
    /// There is no such thing.
    NotFound,
    /// It exists already, with other content.
    AlreadyExists,
    /// The stream or the run has ended and accepts nothing more.
    Closed,
    /// It existed, and was deleted, trimmed or has expired.
    Gone,
    /// Another holder has it.
    Busy,
    /// A quota or a rate limit has not enough units left.
    Exceeded,
    /// The lease, lock or claim was lost to another holder.
    LeaseLost,
    /// An id was used before for something else.
    IdempotencyMismatch,
    /// The personal data of the subject was erased.
    SubjectErased,
    /// A mutator called into the scope that it changes.
    Reentered,
    /// The work ran and failed.
    Failed,
    /// The run was cancelled or terminated.
    Cancelled,
    /// Stored data is not of the expected type.
    Unreadable,
    /// The input cannot mean anything.
    Invalid,
    /// The input is larger than a limit.
    LimitExceeded,
    /// The store cannot be reached, or is busy.
    Unavailable,
    /// There is no room left where the store keeps its data.
    Full,
    /// The storage under the store failed.
    Storage,
    /// The store holds data that this version cannot use safely.
    Incompatible,
    /// A position was given that this store has never given out.
    Rewound,
    /// The stored data makes no sense.
    Corrupt,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, cause: impl Into<BoxError>) -> Self {
        let inner =
            Inner { kind, is_retryable: false, is_outcome_unknown: false, cause: cause.into() };
        Self(Box::new(inner))
    }

    pub(crate) fn retryable(mut self) -> Self {
        self.0.is_retryable = true;
        self
    }

    #[cfg(feature = "problem")]
    pub(crate) fn into_cause(self) -> BoxError {
        self.0.cause
    }

    /// What kind of problem it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.0.is_retryable
    }

    /// Whether the commit may have happened although the call failed.
    pub fn outcome_unknown(&self) -> bool {
        self.0.is_outcome_unknown
    }

    /// The conflict of a commit, with each part that did not hold and its current state.
    pub fn conflict(&self) -> Option<&Conflict> {
        self.details()
    }

    /// The application's own error, if its code said no with an `X`.
    pub fn refusal<X: StdError + 'static>(&self) -> Option<&X> {
        self.details().filter(|_| self.kind() == ErrorKind::Refused)
    }

    /// The pattern's own error, if it is an `E`.
    pub fn details<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.cause.downcast_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.cause, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.kind()).field("cause", &self.0.cause).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.source()
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Invalid => ErrorKind::Invalid,
            StoreErrorKind::LimitExceeded => ErrorKind::LimitExceeded,
            StoreErrorKind::IdempotencyMismatch => ErrorKind::IdempotencyMismatch,
            StoreErrorKind::Unavailable => ErrorKind::Unavailable,
            StoreErrorKind::Full => ErrorKind::Full,
            StoreErrorKind::Storage => ErrorKind::Storage,
            StoreErrorKind::Incompatible => ErrorKind::Incompatible,
            StoreErrorKind::Rewound => ErrorKind::Rewound,
            _ => ErrorKind::Corrupt,
        };
        let (advice, mut converted) = (error.advice(), Self::new(kind, error));
        converted.0.is_retryable = advice != RetryAdvice::Never;
        converted.0.is_outcome_unknown = advice == RetryAdvice::Unknown;
        converted
    }
}

/// An error of your own SQL, in a transaction of the store's PostgreSQL database.
#[cfg(feature = "postgres")]
impl From<tidelock_store_postgres::tokio_postgres::Error> for Error {
    fn from(error: tidelock_store_postgres::tokio_postgres::Error) -> Self {
        // A serialization failure, a deadlock, a lock or a statement that took too long.
        let passing = ["40001", "40P01", "55P03", "57014"];
        let is_passing = match error.code() {
            Some(code) => passing.contains(&code.code()),
            None => error.is_closed(),
        };
        match is_passing {
            true => Self::new(ErrorKind::Unavailable, error).retryable(),
            false => Self::new(ErrorKind::Failed, error),
        }
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::new(ErrorKind::Conflict, conflict)
    }
}

impl From<InvalidName> for Error {
    fn from(error: InvalidName) -> Self {
        Self::new(ErrorKind::Invalid, error)
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Self::new(ErrorKind::Unreadable, error)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unreadable(error) => error.into(),
            ReadError::Store(error) => error.into(),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        let kind = match error {
            LoadError::Store(error) => return error.into(),
            LoadError::Unreadable(error) => return error.into(),
            LoadError::Trimmed { .. } => ErrorKind::Gone,
            LoadError::Closed { .. } => ErrorKind::Closed,
            LoadError::NotReached { .. } => ErrorKind::NotFound,
        };
        Self::new(kind, error)
    }
}

impl<X: Into<BoxError>> From<ExecuteError<X>> for Error {
    fn from(error: ExecuteError<X>) -> Self {
        let error = match error {
            ExecuteError::Refused(reason) => return Self::new(ErrorKind::Refused, reason),
            other => other.map_refused(|_| unreachable_refusal()),
        };
        match error {
            ExecuteError::Store(error) => error.into(),
            ExecuteError::Load(error) => error.into(),
            ExecuteError::Part(conflict) => conflict.into(),
            ExecuteError::GaveUp { .. } => Self::new(ErrorKind::Contended, error).retryable(),
            ExecuteError::WaitedTooLong { .. } => Self::new(ErrorKind::TimedOut, error).retryable(),
            ExecuteError::Conflict { .. } => Self::new(ErrorKind::Conflict, error),
            ExecuteError::Closed { .. } => Self::new(ErrorKind::Closed, error),
            ExecuteError::SubjectErased { .. } => Self::new(ErrorKind::SubjectErased, error),
            ExecuteError::Refused(never) => match never {},
        }
    }
}

impl<X: Into<BoxError>> From<ScopeError<X>> for Error {
    fn from(error: ScopeError<X>) -> Self {
        let error = match error {
            ScopeError::Refused(reason) => return Self::new(ErrorKind::Refused, reason),
            other => other.map_refused(|_| unreachable_refusal()),
        };
        let kind = match error {
            ScopeError::Store(error) => return error.into(),
            ScopeError::Part(conflict) => return conflict.into(),
            ScopeError::TimedOut { .. } => ErrorKind::TimedOut,
            ScopeError::Contended { .. } => ErrorKind::Contended,
            ScopeError::Reentered { .. } => ErrorKind::Reentered,
            ScopeError::Moved { .. } => ErrorKind::Conflict,
            ScopeError::Gone { revision: None, .. } => ErrorKind::NotFound,
            ScopeError::Gone { .. } => ErrorKind::Gone,
            ScopeError::Taken { .. } => ErrorKind::AlreadyExists,
            ScopeError::Unfit { .. } => ErrorKind::Invalid,
            ScopeError::Rejected { .. } => ErrorKind::Refused,
            ScopeError::Unreadable { .. } => ErrorKind::Unreadable,
            ScopeError::Refused(never) => match never {},
        };
        match kind {
            ErrorKind::TimedOut | ErrorKind::Contended => Self::new(kind, error).retryable(),
            _ => Self::new(kind, error),
        }
    }
}

impl From<ClaimError> for Error {
    fn from(error: ClaimError) -> Self {
        let kind = match error {
            ClaimError::Store(error) => return error.into(),
            ClaimError::Lost { .. } | ClaimError::Over { .. } => ErrorKind::LeaseLost,
            ClaimError::Refused { .. } => ErrorKind::Conflict,
            ClaimError::Failed { .. } => ErrorKind::Failed,
            ClaimError::StillHeld { .. } => ErrorKind::Busy,
            ClaimError::Free { .. } => ErrorKind::NotFound,
            ClaimError::Settled { .. } => ErrorKind::Gone,
            ClaimError::Contended { .. } => ErrorKind::Contended,
            ClaimError::Unreadable { .. } => ErrorKind::Unreadable,
        };
        match kind {
            ErrorKind::Busy | ErrorKind::Contended => Self::new(kind, error).retryable(),
            _ => Self::new(kind, error),
        }
    }
}

impl<X: Into<BoxError>> From<OnceError<X>> for Error {
    fn from(error: OnceError<X>) -> Self {
        match error {
            OnceError::Work(failure) => Self::new(ErrorKind::Failed, failure),
            OnceError::Mismatch(error) => error.into(),
            OnceError::Claim(error) => error.into(),
        }
    }
}

impl From<FingerprintMismatch> for Error {
    fn from(error: FingerprintMismatch) -> Self {
        Self::new(ErrorKind::IdempotencyMismatch, error)
    }
}

impl From<LockBusy> for Error {
    fn from(error: LockBusy) -> Self {
        Self::new(ErrorKind::Busy, error).retryable()
    }
}

impl From<QuotaExceeded> for Error {
    fn from(error: QuotaExceeded) -> Self {
        Self::new(ErrorKind::Exceeded, error)
    }
}

impl From<RateExceeded> for Error {
    fn from(error: RateExceeded) -> Self {
        Self::new(ErrorKind::Exceeded, error).retryable()
    }
}

impl From<SingletonTaken> for Error {
    fn from(error: SingletonTaken) -> Self {
        Self::new(ErrorKind::Busy, error)
    }
}

impl From<Refusals> for Error {
    /// Its kind is that of the first refusal that no wait resolves, otherwise `Busy`.
    fn from(error: Refusals) -> Self {
        let is_held = |why: &RefusalReason| matches!(why, RefusalReason::Held { .. });
        let kind = match error.iter().map(|refusal| &refusal.why).find(|why| !is_held(why)) {
            None => return Self::new(ErrorKind::Busy, error).retryable(),
            Some(RefusalReason::Exceeded(_)) => ErrorKind::Exceeded,
            Some(RefusalReason::Mismatch(_)) => ErrorKind::IdempotencyMismatch,
            Some(RefusalReason::Failed(_)) => ErrorKind::Failed,
            Some(RefusalReason::Done { .. } | RefusalReason::Held { .. }) => ErrorKind::Busy,
        };
        Self::new(kind, error)
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        let kind = match error {
            RunError::Store(error) => return error.into(),
            RunError::Name(error) => return error.into(),
            RunError::NoRun { .. } | RunError::UnknownWorkflow { .. } => ErrorKind::NotFound,
            RunError::Removed { .. } => ErrorKind::Gone,
            RunError::Ended { .. } => ErrorKind::Closed,
            RunError::OtherRun { .. } => ErrorKind::AlreadyExists,
            RunError::OtherSignal { .. } => ErrorKind::IdempotencyMismatch,
            RunError::Input { .. } => ErrorKind::Invalid,
            RunError::Failed { .. } | RunError::Parked { .. } => ErrorKind::Failed,
            RunError::Cancelled { .. } | RunError::Terminated { .. } => ErrorKind::Cancelled,
            RunError::StillOpen { .. } => ErrorKind::TimedOut,
            RunError::Contended { .. } => ErrorKind::Contended,
            _ => ErrorKind::Conflict,
        };
        match kind {
            ErrorKind::TimedOut | ErrorKind::Contended => Self::new(kind, error).retryable(),
            _ => Self::new(kind, error),
        }
    }
}

impl From<ScheduleError> for Error {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Name(error) => error.into(),
            ScheduleError::Run(error) => (*error).into(),
            ScheduleError::NoSchedule { .. } => Self::new(ErrorKind::NotFound, error),
            ScheduleError::Contended { .. } => Self::new(ErrorKind::Contended, error).retryable(),
            _ => Self::new(ErrorKind::Invalid, error),
        }
    }
}

impl From<CloseError> for Error {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::Store(error) => error.into(),
            CloseError::Load(error) => error.into(),
            CloseError::NoStream { .. } => Self::new(ErrorKind::NotFound, error),
            CloseError::Busy { .. } | CloseError::Unfinished { .. } => {
                Self::new(ErrorKind::Busy, error).retryable()
            }
            CloseError::Refused { .. } => Self::new(ErrorKind::Contended, error).retryable(),
            CloseError::Archive { .. } => Self::new(ErrorKind::Failed, error).retryable(),
            CloseError::Shut { .. } => Self::new(ErrorKind::Closed, error),
            _ => Self::new(ErrorKind::Conflict, error),
        }
    }
}

impl From<ResetError> for Error {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::Store(error) => error.into(),
            ResetError::EventsGone { .. } => Self::new(ErrorKind::Gone, error),
        }
    }
}

impl From<HandlerError> for Error {
    /// What a handler failed with: the store's error and an [`Error`] as they are.
    fn from(error: HandlerError) -> Self {
        let is_retryable = error.is_retryable();
        let cause = match BoxError::from(error).downcast::<StoreError>() {
            Ok(error) => return (*error).into(),
            Err(cause) => cause,
        };
        match cause.downcast::<Self>() {
            Ok(error) => *error,
            Err(cause) => {
                let failed = Self::new(ErrorKind::Failed, cause);
                if is_retryable { failed.retryable() } else { failed }
            }
        }
    }
}
