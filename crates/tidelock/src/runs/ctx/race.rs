//! Races: two futures, of which the first to complete wins.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::RunCtx;
use crate::runs::activation::{Activation, Exit, used_twice};
use crate::runs::history::{Entry, Won};
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
        let _started = Started::begin(&self.activation, &name).await;
        let known = self.activation.state().past.races.get(&name).copied();
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
            self.won(&name, usize::from(matches!(winner, RaceWinner::Second(_))))?;
        }
        Ok(winner)
    }

    fn won(&self, name: &StepName, branch: usize) -> Result<(), StepError> {
        let entry = Entry::from(Won { name: name.clone(), branch }).encode();
        let entry = entry.map_err(|e| super::invalid(name.as_str(), &e))?;
        let mut state = self.activation.state();
        state.past.races.insert(name.clone(), branch);
        state.queue.push(entry);
        Ok(())
    }
}

/// A race in progress. A race that is dropped before it is won leaves no trace.
struct Started<'a> {
    activation: &'a Activation,
    name: StepName,
}

impl<'a> Started<'a> {
    /// Never completes if another race of this turn has the name.
    async fn begin(activation: &'a Activation, name: &StepName) -> Self {
        activation.inside().await;
        let is_first = activation.state().races.insert(name.clone());
        if !is_first {
            activation.state().leave(Exit::Fail(used_twice(name)));
            return futures_util::future::pending().await;
        }
        Self { activation, name: name.clone() }
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let mut state = self.activation.state();
        if !state.past.races.contains_key(&self.name) {
            state.races.remove(&self.name);
        }
    }
}
