//! What is asked of a run, decided on the run as it is: an answer, or a commit that makes the
//! answer true.
//!
//! Every verb of the client is one such decision. A caller carries it out, and decides again if
//! somebody was quicker; a reaction and a transactional step put the same commit into theirs.

use std::future::Future;

use tidelock_store::{Commit, CommitOutcome, RetryAdvice, StoreError};

use crate::handle::Tidelock;

/// What was decided.
#[derive(Debug)]
// One at a time, and moved once or twice.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Proposal<T> {
    /// It is so already.
    Answer(T),
    /// It is so once this is committed.
    Commit(Box<Commit>, T),
}

impl<T> Proposal<T> {
    /// Decides on this commit, after which this is the answer.
    pub(crate) fn commit(commit: Commit, answer: T) -> Self {
        Self::Commit(Box::new(commit), answer)
    }

    /// The parts of a commit that it comes to; none, if it is so already.
    pub(crate) fn into_parts(self) -> Commit {
        match self {
            Self::Answer(_) => Commit::new(),
            Self::Commit(commit, _) => *commit,
        }
    }
}

/// Whether something that was asked for is new, or was so before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    New,
    Known,
}

/// Decides and commits, again and again while others are quicker or the store does not answer, as
/// the handle's policy has it. `contended` says that others were quicker every time.
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
            // It may have happened: the same commit tells.
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
