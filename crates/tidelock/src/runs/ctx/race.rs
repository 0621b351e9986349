//! Races: two futures, of which the first to complete wins.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::RunCtx;
use crate::runs::activation::Activation;
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
    /// agrees.
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
        let (_racing, known) = Racing::begin(&self.activation, &name).await;
        let (mut first, mut second) = (pin!(first.into_future()), pin!(second.into_future()));
        let (mut one, mut other) = (None, None);
        let winner = poll_fn(|cx| {
            if one.is_none()
                && let Poll::Ready(output) = first.as_mut().poll(cx)
            {
                one = Some(output);
            }
            if known != Some(1)
                && let Some(output) = one.take()
            {
                // What is recorded of the other branch is requested again before it is dropped.
                if other.is_none() && self.activation.replay(|replay| replay.is_replay()) {
                    let _dropped = second.as_mut().poll(cx);
                }
                return Poll::Ready(RaceWinner::First(output));
            }
            if other.is_none()
                && let Poll::Ready(output) = second.as_mut().poll(cx)
            {
                other = Some(output);
            }
            match other.take() {
                Some(output) if known != Some(0) => Poll::Ready(RaceWinner::Second(output)),
                output => {
                    other = output;
                    Poll::Pending
                }
            }
        })
        .await;
        if known.is_none() {
            let branch = usize::from(matches!(winner, RaceWinner::Second(_)));
            let won = self.activation.replay(|replay| replay.won(&name, branch));
            won.map_err(|e| super::invalid(name.as_str(), &e))?;
        }
        Ok(winner)
    }
}

/// A race in progress. A race that is dropped before it is won leaves no trace.
struct Racing<'a> {
    activation: &'a Activation,
    name: StepName,
}

impl<'a> Racing<'a> {
    /// The race, and its recorded winner. Never completes if another race of this turn has the
    /// name.
    async fn begin(activation: &'a Activation, name: &StepName) -> (Self, Option<usize>) {
        activation.inside().await;
        match activation.replay(|replay| replay.begin_race(name)) {
            Some(winner) => (Self { activation, name: name.clone() }, winner),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Racing<'_> {
    fn drop(&mut self) {
        self.activation.replay(|replay| replay.end_race(&self.name));
    }
}
