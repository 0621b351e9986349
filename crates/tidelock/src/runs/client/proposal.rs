//! Proposals: a request to a run, decided on its current state. The result is an answer, or a
//! commit that makes the answer true.
//!
//! Every client request is such a decision. A caller commits it, and decides again after a
//! conflict; a reaction or a transactional step adds the same commit to its own.

use std::future::Future;

use tidelock_store::{Commit, CommitOutcome, RetryAdvice, StoreError};

use crate::handle::Tidelock;

/// A decided request.
#[derive(Debug)]
// Short-lived and rarely moved, so the size does not matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Proposal<T> {
    /// The answer holds already.
    Answer(T),
    /// The answer holds once this is committed.
    Commit(Box<Commit>, T),
}

impl<T> Proposal<T> {
    /// Proposes this commit with this answer.
    pub(crate) fn commit(commit: Commit, answer: T) -> Self {
        Self::Commit(Box::new(commit), answer)
    }

    /// The parts of the commit; empty, if the answer holds already.
    pub(crate) fn into_parts(self) -> Commit {
        match self {
            Self::Answer(_) => Commit::new(),
            Self::Commit(commit, _) => *commit,
        }
    }
}

/// Whether a request changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    New,
    Known,
}

/// Decides and commits, with retries after conflicts and store errors according to the handle's
/// policy. `contended` makes the error after too many conflicts.
pub(crate) async fn carry_out<T, E, F>(
    tidelock: &Tidelock,
    contended: impl Fn(u32) -> E,
    propose: impl Fn() -> F,
) -> Result<T, E>
where
    E: From<StoreError>,
    F: Future<Output = Result<Proposal<T>, E>>,
{
    let mut attempts = tidelock.retry().begin();
    let mut unsure: Option<(Commit, T)> = None;
    loop {
        let (commit, answer) = match unsure.take() {
            // The outcome is unknown: the same commit tells.
            Some(again) => again,
            None => match propose().await? {
                Proposal::Answer(answer) => return Ok(answer),
                Proposal::Commit(commit, answer) => (*commit, answer),
            },
        };
        let mut error = contended(attempts.made);
        match tidelock.store().commit(commit.clone()).await {
            Ok(CommitOutcome::Committed(_)) => return Ok(answer),
            Ok(CommitOutcome::Conflict(_)) => {}
            Err(failed) if failed.advice() == RetryAdvice::Never => return Err(failed.into()),
            Err(failed) => {
                error = failed.into();
                unsure = Some((commit, answer));
            }
        }
        if !attempts.next(tidelock.random()).await {
            return Err(error);
        }
    }
}
