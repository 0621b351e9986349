//! [`Outcome`]: granted or refused, where a refusal is part of normal operation and not an error.

/// What became of a request that may be refused: a lock, a quota, a singleton, several of them.
///
/// Match on it where a refusal has its own answer. Where a refusal ends the request,
/// [`granted`](Self::granted) makes it an error.
///
/// # Examples
/// ```
/// use tidelock::prelude::*;
/// use tidelock::ErrorKind;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// let tidelock = Tidelock::open("memory:").await?;
/// let seats = tidelock.quota("seats", 2);
/// match seats.take(3).await? {
///     Outcome::Granted(grant) => println!("{} seats", grant.units),
///     Outcome::Refused(exceeded) => println!("{} of {} are taken", exceeded.used, exceeded.limit),
/// }
///
/// async fn book(seats: &tidelock::claims::Quota) -> tidelock::Result<()> {
///     seats.take(3).await?.granted()?;
///     Ok(())
/// }
/// assert_eq!(book(&seats).await.unwrap_err().kind(), ErrorKind::Exceeded);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a request that is refused changes nothing"]
pub enum Outcome<T, R> {
    /// Granted, with what was asked for.
    Granted(T),
    /// Refused, with the reason.
    Refused(R),
}

impl<T, R> Outcome<T, R> {
    /// Returns what was granted, or the refusal as an error.
    ///
    /// # Errors
    /// The refusal.
    pub fn granted(self) -> Result<T, R> {
        match self {
            Self::Granted(granted) => Ok(granted),
            Self::Refused(refusal) => Err(refusal),
        }
    }

    /// Whether the request was granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// Converts what was granted.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Outcome<U, R> {
        self.granted().map(convert).into()
    }
}

impl<T, R> From<Result<T, R>> for Outcome<T, R> {
    fn from(result: Result<T, R>) -> Self {
        match result {
            Ok(granted) => Self::Granted(granted),
            Err(refusal) => Self::Refused(refusal),
        }
    }
}
