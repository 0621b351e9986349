//! [`Tidelock::transact`]: one unit of work over every pattern.

mod once;

use std::convert::Infallible;
use std::fmt;
use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{Commit, Committed, Conflict, EventId, ViolationReason};

use crate::error::{Error, ErrorKind};
use crate::events::{ExecuteError, moved};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::outcome::Outcome;
use crate::retry::{Retry, RetryLimits};
use crate::staging::{DECISION_ATTEMPTS, Sender, Staged, Tried, Tx, TxOwner, too_slow};

pub use once::TransactOnce;

impl Tidelock {
    /// Runs a closure that stages events, records, scope mutations, quota draws, claims, queue
    /// items, runs and signals, and commits all of it at once, or nothing.
    ///
    /// On a conflict the closure runs again, on the state as it is then; a staged decision that
    /// returns nothing to the closure is taken again without it. So the closure should have no
    /// effects of its own; [`Tx::effect_key`] is the same in each attempt. An error that the
    /// closure returns ends the unit of work: nothing is written, and the error is returned as it
    /// is. A closure that stages nothing commits nothing.
    ///
    /// # Errors
    /// The closure's own; `Contended` when the attempts of the [`Retry`] are used up;
    /// `Conflict` or `Closed` when what the closure expects itself does not hold, such as a
    /// [`put_if`](Tx::put_if) or an append to a closed stream;
    /// `LeaseLost` when something that [fences](Tx::fence) the commit is no longer held; the
    /// store's.
    ///
    /// # Cancel safety
    /// If the future is dropped, the commit may have happened or not.
    ///
    /// # Examples
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tidelock::prelude::*;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct SendMail { order: String }
    /// # impl Job for SendMail { const QUEUE: &'static str = "mail"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    /// let daily = tidelock.quota("orders", 20).of("alice");
    ///
    /// let items = tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<usize> {
    ///         let items = tx.mutate(&basket, std::mem::take).await?;
    ///         tx.take(&daily, 1).await?.granted()?;
    ///         tx.put("orders/7", &items)?;
    ///         tx.enqueue(&SendMail { order: "order-7".into() }).await?;
    ///         Ok(items.len())
    ///     })
    ///     .await?;
    /// assert_eq!(items, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T, E, F, R>(&self, closure: F) -> Transact<'_, F>
    where
        F: Fn(Tx) -> R + Send,
        R: Future<Output = Result<T, E>> + Send,
        E: From<Error>,
    {
        Transact {
            tidelock: self,
            closure,
            retry: self.retry(),
            metadata: Metadata::new(),
            effect_key: None,
        }
    }
}

/// A unit of work, to be awaited.
#[must_use = "nothing is done before it is awaited"]
pub struct Transact<'a, F> {
    tidelock: &'a Tidelock,
    closure: F,
    retry: RetryLimits,
    metadata: Metadata,
    /// If it is not made for this call alone.
    effect_key: Option<String>,
}

impl<F> fmt::Debug for Transact<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transact").field("retry", &self.retry).finish_non_exhaustive()
    }
}

impl<F> Transact<'_, F> {
    /// Sets the retry policy: how often the closure runs, and with which pauses. What it does not
    /// set is that of the handle.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry.or(self.tidelock.retry());
        self
    }

    /// Sets the metadata that appended events inherit.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Runs it, and returns what was committed with the closure's value (`None` if nothing was
    /// staged), or the conflict when what the closure expects itself does not hold: to branch on
    /// its parts.
    ///
    /// # Errors
    /// Those of [`Tidelock::transact`], except `Conflict`, `Closed` and `LeaseLost` for a refused
    /// commit.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let sell = async |tx: Tx| tx.add("sold/tea", 12, ..=18);
    /// let ((), committed) = tidelock.transact(sell).outcome().await?.granted()?;
    /// assert_eq!(committed.unwrap().writes[0].sum, Some(12));
    ///
    /// let conflict = tidelock.transact(sell).outcome().await?.granted().unwrap_err();
    /// assert_eq!(conflict.violations.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn outcome<T, E, R>(self) -> Result<Outcome<(T, Option<Committed>), Conflict>, E>
    where
        F: Fn(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        Ok(match self.attempts().await? {
            Landed::Committed(value, committed) => Outcome::Granted((value, committed)),
            Landed::Refused(conflict, _) => Outcome::Refused(conflict),
        })
    }

    /// Sets the actor of appended events.
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.metadata.actor = Some(actor.into());
        self
    }
}

impl<F> Transact<'_, F> {
    async fn run<T, E, R>(self) -> Result<T, E>
    where
        F: Fn(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        match self.attempts().await? {
            Landed::Committed(value, _) => Ok(value),
            Landed::Refused(_, error) => Err(error.into()),
        }
    }

    async fn attempts<T, E, R>(mut self) -> Result<Landed<T>, E>
    where
        F: Fn(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let effect_key = self.effect_key.take().unwrap_or_else(|| EventId::fresh().to_string());
        let mut attempts = self.retry.begin();
        loop {
            let tx = Tx::new(self.tidelock, self.metadata.clone(), effect_key.clone());
            let tx = TxOwner::new(tx);
            let (value, mut staged) = match (self.closure)(tx.clone()).await {
                Ok(value) => (value, tx.finish()),
                Err(error) => {
                    tx.finish().give_up(&**self.tidelock.store()).await;
                    return Err(error);
                }
            };
            let conflict = match self.land(&mut staged).await? {
                Tries::Over(committed) => return Ok(Landed::Committed(value, committed)),
                Tries::Refused(conflict, error) => {
                    staged.give_up(&**self.tidelock.store()).await;
                    return Ok(Landed::Refused(conflict, error));
                }
                Tries::Again(conflict) => conflict,
            };
            staged.give_up(&**self.tidelock.store()).await;
            if !attempts.next(self.tidelock.random()).await {
                return Err(gave_up(attempts.made, &conflict).into());
            }
        }
    }

    /// Commits what was staged.
    async fn land(&self, staged: &mut Staged) -> Result<Tries, Error> {
        if staged.is_empty() {
            return Ok(Tries::Over(None));
        }
        for attempt in 1..=DECISION_ATTEMPTS {
            match staged.attempt(Sender::Handle(self.tidelock), &Commit::new(), attempt).await? {
                Tried::Landed(committed) => return Ok(Tries::Over(Some(committed))),
                Tried::Stale => {}
                Tried::Lost(conflict) => {
                    let error = Error::new(ErrorKind::LeaseLost, conflict.clone());
                    return Ok(Tries::Refused(conflict, error));
                }
                Tried::Moved(conflict) => return Ok(Tries::Again(HandlerError::again(conflict))),
                Tried::Refused(error) => return refused(error, staged),
            }
        }
        Ok(Tries::Again(too_slow()))
    }
}

/// What a unit of work came to.
enum Landed<T> {
    /// The closure's value, and the commit, if it staged anything.
    Committed(T, Option<Committed>),
    /// What it expects itself does not hold.
    Refused(Conflict, Error),
}

/// What the attempts to commit what was staged once came to.
enum Tries {
    Over(Option<Committed>),
    /// The closure has to run again.
    Again(HandlerError),
    Refused(Conflict, Error),
}

/// A part did not hold: an error if running the closure again cannot help.
fn refused(error: HandlerError, staged: &Staged) -> Result<Tries, Error> {
    if !error.is_retryable() {
        return Err(error.into());
    }
    let Some(conflict) = error.error().downcast_ref::<Conflict>() else {
        return Ok(Tries::Again(error));
    };
    if is_unfenced(conflict, staged) {
        let lost = format!("a lock or claim that fences the commit is no longer held: {conflict}");
        return Ok(Tries::Refused(conflict.clone(), lease_lost(&lost)));
    }
    if staged.is_final(conflict) {
        let error = of_own_expectation(conflict, staged);
        return Ok(Tries::Refused(conflict.clone(), error));
    }
    Ok(Tries::Again(error))
}

/// The error of parts that were staged as they are.
fn of_own_expectation(conflict: &Conflict, staged: &Staged) -> Error {
    let streams: Vec<_> =
        staged.commit.appends.iter().map(|append| append.stream.clone()).collect();
    match moved::<Infallible>(conflict, &streams) {
        Ok((stream, conflict)) => ExecuteError::<Infallible>::Conflict { stream, conflict }.into(),
        Err(error) => error.into(),
    }
}

pub(crate) fn is_unfenced(conflict: &Conflict, staged: &Staged) -> bool {
    conflict.violations.iter().any(|violation| match &violation.reason {
        ViolationReason::Record { key, .. } => staged.fenced.contains(key),
        _ => false,
    })
}

pub(crate) fn lease_lost(why: &str) -> Error {
    Error::new(ErrorKind::LeaseLost, why)
}

fn gave_up(attempts: u32, last: &HandlerError) -> Error {
    let why = format!("the transaction gave up after {attempts} attempts; the last one: {last}");
    Error::new(ErrorKind::Contended, why).retryable()
}

impl<'a, T, E, F, R> IntoFuture for Transact<'a, F>
where
    T: Send + 'a,
    E: From<Error> + Send + 'a,
    F: Fn(Tx) -> R + Send + Sync + 'a,
    R: Future<Output = Result<T, E>> + Send + 'a,
{
    type Output = Result<T, E>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
