//! Racing: which of several futures completes first, as it is recorded. Races and selects share it.
//!
//! The futures are polled in their order, and the first that is ready wins. Replay delivers results
//! in the order in which they were first known, so that the same one wins even if the process died
//! before the winner was recorded.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::RunCtx;
use crate::runs::activation::Activation;
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// The index of the future that completes first of these. `poll` polls the one of an index, and
    /// says whether it is ready; it is asked again after that. The caller drops the others.
    pub(super) async fn first_of(
        &self,
        name: &StepName,
        futures: usize,
        mut poll: impl FnMut(usize, &mut Context<'_>) -> bool,
    ) -> Result<usize, StepError> {
        let (_racing, known) = Racing::begin(&self.activation, name, futures).await;
        let winner = poll_fn(|cx| {
            let mut ready = (0..futures).filter(|at| poll(*at, cx));
            match ready.find(|at| known.is_none_or(|known| known == *at)) {
                Some(winner) => Poll::Ready(winner),
                None => Poll::Pending,
            }
        })
        .await;
        // What is recorded of the later ones is requested again before they are dropped.
        poll_fn(|cx| {
            for at in winner + 1..futures {
                if self.activation.replay(|replay| replay.is_replay()) {
                    poll(at, cx);
                }
            }
            Poll::Ready(())
        })
        .await;
        if known.is_none() {
            let won = self.activation.replay(|replay| replay.won(name, winner));
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
    /// name, or if the winner is none of these futures.
    async fn begin(
        activation: &'a Activation,
        name: &StepName,
        futures: usize,
    ) -> (Self, Option<usize>) {
        activation.inside().await;
        match activation.replay(|replay| replay.begin_race(name, futures)) {
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
