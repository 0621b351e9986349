//! Selects: any number of futures, of which the first to complete wins.

use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::maybe_done;

use super::RunCtx;
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Runs these futures until one completes, and drops the others; returns its index and its
    /// result. The winner is recorded, so replay agrees.
    ///
    /// They can be anything that the context offers: steps, sleeps, waits, children, or blocks of
    /// several of them. If more than one is ready, the first in order wins. What a dropped step was
    /// doing ends at its await point, and a dropped child continues.
    ///
    /// # Examples
    ///
    /// Futures of different types are boxed, with one type for what they lead to:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use futures_util::FutureExt;
    /// use tidelock::prelude::*;
    ///
    /// enum Next {
    ///     Ship(String),
    ///     Refund,
    ///     Remind,
    /// }
    ///
    /// async fn order(ctx: RunCtx, _: ()) -> Result<String, StepError> {
    ///     let paid = async { Ok(Next::Ship(ctx.wait_for_signal("paid").await?)) };
    ///     let withdrawn = async { ctx.wait_for_signal("withdrawn").await.map(|()| Next::Refund) };
    ///     let late = async { ctx.sleep("a-day", Duration::from_secs(86_400)).await.map(|()| Next::Remind) };
    ///     let (_, next) = ctx.select("next", [paid.boxed(), withdrawn.boxed(), late.boxed()]).await?;
    ///     Ok(match next? {
    ///         Next::Ship(receipt) => format!("shipped: {receipt}"),
    ///         Next::Refund => "refunded".into(),
    ///         Next::Remind => "reminded".into(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is not valid, or if there are no futures.
    pub async fn select<F: IntoFuture>(
        &self,
        name: impl AsRef<str>,
        futures: impl IntoIterator<Item = F>,
    ) -> Result<(usize, F::Output), StepError> {
        let name = StepName::new(name)?;
        let mut futures: Vec<_> =
            futures.into_iter().map(|future| Box::pin(maybe_done(future.into_future()))).collect();
        if futures.is_empty() {
            let error = "there is nothing to select from".to_owned();
            return Err(StepError::Invalid { name: name.as_str().into(), error });
        }
        let winner =
            self.first_of(&name, futures.len(), |at, cx| futures[at].poll_unpin(cx).is_ready());
        let winner = winner.await?;
        let output = futures[winner].as_mut().take_output();
        Ok((winner, output.expect("the winner is ready")))
    }
}
