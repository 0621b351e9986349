//! [`RefusalExt`]: the application's own refusal, separated from every other error.

use crate::claims::OnceError;
use crate::error::Error;
use crate::events::ExecuteError;
use crate::scopes::ScopeError;

/// Separates what the application's own code refused from every other error.
///
/// For results of decisions ([`ExecuteError`]), of mutators ([`ScopeError`]) and of the work under
/// an idempotency key ([`OnceError`]).
///
/// # Examples
/// ```
/// use tidelock::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// # let tidelock = Tidelock::open("memory:").await?;
/// let seats = tidelock.scope::<u32>(ScopeKind::ORG, "hall");
/// let book = |free: &mut u32| free.checked_sub(1).map(|left| *free = left).ok_or("sold out");
/// match seats.try_mutate(book).await.refusal()? {
///     Ok(_) => println!("a seat"),
///     Err(why) => assert_eq!(why, "sold out"),
/// }
/// # Ok(())
/// # }
/// ```
pub trait RefusalExt<T, X> {
    /// Returns the refusal as the inner result, and every other error as a
    /// [`tidelock::Error`](Error).
    ///
    /// # Errors
    /// Every error but the application's own.
    fn refusal(self) -> Result<Result<T, X>, Error>;
}

impl<T, X> RefusalExt<T, X> for Result<T, ExecuteError<X>> {
    fn refusal(self) -> Result<Result<T, X>, Error> {
        match self {
            Ok(value) => Ok(Ok(value)),
            Err(ExecuteError::Refused(refusal)) => Ok(Err(refusal)),
            Err(other) => Err(other.map_refused(|_| unreachable_refusal()).into()),
        }
    }
}

impl<T, X> RefusalExt<T, X> for Result<T, ScopeError<X>> {
    fn refusal(self) -> Result<Result<T, X>, Error> {
        match self {
            Ok(value) => Ok(Ok(value)),
            Err(ScopeError::Refused(refusal)) => Ok(Err(refusal)),
            Err(other) => Err(other.map_refused(|_| unreachable_refusal()).into()),
        }
    }
}

impl<T, X> RefusalExt<T, X> for Result<T, OnceError<X>> {
    fn refusal(self) -> Result<Result<T, X>, Error> {
        match self {
            Ok(value) => Ok(Ok(value)),
            Err(OnceError::Work(failure)) => Ok(Err(failure)),
            Err(OnceError::Mismatch(error)) => Err(error.into()),
            Err(OnceError::Claim(error)) => Err(error.into()),
        }
    }
}

/// The value of a refusal that was handled before.
pub(crate) fn unreachable_refusal() -> std::convert::Infallible {
    unreachable!("a refusal was converted before")
}
