//! Mutations of scopes as parts of a unit of work.

use tidelock_store::{Commit, ExpectedRevision, Guard};

use super::{Scope, ScopeError, ScopeRead, ScopeState};
use crate::error::Result;
use crate::staging::Tx;

impl Tx {
    /// Changes the state of a stored scope by a function of it, and returns what the function
    /// returned. A second change in the same unit of work sees the first one.
    ///
    /// # Errors
    /// Those of [`Scope::mutate`], without its deadline: a concurrent change is found at the
    /// commit. `Invalid` for a scope in memory, which no commit can hold.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    /// basket.push("", "tea").await?;
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let items = tx.mutate(&basket, std::mem::take).await?;
    ///         tx.put("orders/7", &items)
    ///     })
    ///     .await?;
    /// assert!(basket.get().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn mutate<S: ScopeState, R>(
        &self,
        scope: &Scope<S>,
        mutate: impl FnOnce(&mut S) -> R,
    ) -> Result<R> {
        let mutated = self.try_mutate(scope, |state| Ok(mutate(state))).await;
        mutated.map_err(|error: ScopeError| error.into())
    }

    /// Changes the state of a stored scope by a function that may refuse. See
    /// [`mutate`](Self::mutate).
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's own reason; those of
    /// [`mutate`](Self::mutate).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let account = tidelock.scope::<i64>(ScopeKind::USER, "alice");
    /// let pay = async |tx: Tx| -> tidelock::Result<()> {
    ///     let pay = |cents: &mut i64| match *cents {
    ///         700.. => Ok(*cents -= 700),
    ///         cents => Err(format!("only {cents} cents")),
    ///     };
    ///     tx.try_mutate(&account, pay).await?;
    ///     tx.put("payments/42", &700)
    /// };
    /// let refused = tidelock.transact(pay).await.unwrap_err();
    /// assert_eq!(refused.kind(), tidelock::ErrorKind::Refused);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_mutate<S: ScopeState, R, X>(
        &self,
        scope: &Scope<S>,
        mutate: impl FnOnce(&mut S) -> Result<R, X>,
    ) -> Result<R, ScopeError<X>> {
        let read = self.read_scope(scope).await.map_err(ScopeError::widen)?;
        match read.change(mutate) {
            Ok((Some(write), answer)) => {
                self.staged(|staged| staged.replace(Commit::new().write(write)))?;
                Ok(answer)
            }
            Ok((None, answer)) => {
                self.pin([read.guard()])?;
                Ok(answer)
            }
            Err(refused) => {
                self.pin([read.guard()])?;
                Err(refused)
            }
        }
    }

    /// Reads a scope as this unit of work leaves it. That it is gone is compared at the commit.
    pub(crate) async fn read_scope<'a, S: ScopeState>(
        &self,
        scope: &'a Scope<S>,
    ) -> Result<ScopeRead<'a, S>, ScopeError> {
        self.check()?;
        let key = scope.key()?;
        scope.stored().map_or(Ok(()), |(tidelock, _)| self.check_store(tidelock))?;
        let staged = self.staged(|staged| staged.writes_to(key).cloned())?;
        let is_staged = staged.is_some();
        let read = scope.read(staged).await;
        if let (Err(ScopeError::Gone { .. }), false) = (&read, is_staged) {
            let expected = ExpectedRevision::Absent;
            self.pin([Guard::Record { key: key.clone(), expected }])?;
        }
        read
    }
}
