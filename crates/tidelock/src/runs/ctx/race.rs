//! Races: two futures, of which the first to complete wins.

use std::future::IntoFuture;
use std::pin::pin;

use futures_util::future::maybe_done;

use super::RunCtx;
use crate::runs::{StepError, StepName};

/// The winner of a race, with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaceWinner<A, B> {
    /// The first future.
    First(A),
    /// The second future.
    Second(B),
}

impl RunCtx {
    /// Runs two futures until one completes, and drops the other. The winner is recorded, so replay
    /// agrees. For more than two there is [`select`](Self::select).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    /// use tidelock::runs::RaceWinner;
    ///
    /// async fn approval(ctx: RunCtx, _: ()) -> Result<bool, StepError> {
    ///     let approved = ctx.wait_for_signal::<String>("approved");
    ///     let rejected = ctx.wait_for_signal::<String>("rejected");
    ///     match ctx.race("decision", approved, rejected).await? {
    ///         RaceWinner::First(_) => Ok(true),
    ///         RaceWinner::Second(_) => Ok(false),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub async fn race<A: IntoFuture, B: IntoFuture>(
        &self,
        name: impl AsRef<str>,
        first: A,
        second: B,
    ) -> Result<RaceWinner<A::Output, B::Output>, StepError> {
        let name = StepName::new(name)?;
        let mut first = pin!(maybe_done(first.into_future()));
        let mut second = pin!(maybe_done(second.into_future()));
        let winner = self.first_of(&name, 2, |at, cx| match at {
            0 => first.as_mut().poll(cx).is_ready(),
            _ => second.as_mut().poll(cx).is_ready(),
        });
        let winner = winner.await?;
        let won = match winner {
            0 => first.as_mut().take_output().map(RaceWinner::First),
            _ => second.as_mut().take_output().map(RaceWinner::Second),
        };
        Ok(won.expect("the winner is ready"))
    }
}
