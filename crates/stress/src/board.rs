//! The scopes that the workers change: a few boards, on which every change leaves a trace under its
//! id.

use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::Tidelock;
use tidelock::scopes::{Mutated, Mutation, MutationOutcome};
use tidelock::scopes::{Scope, ScopeError, ScopeKind};
use tidelock::store::Revision;

use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Entry;
use crate::space::Space;
use crate::trouble::Trouble;

/// Number of boards at a time. Few, so that all of them are hot.
pub(crate) const HOT: u64 = 3;
/// The budget of a change, its wait included.
pub(crate) const BUDGET: Duration = Duration::from_secs(1);

/// A scope's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Board {
    pub(crate) count: i64,
    pub(crate) pushed: Vec<String>,
    pub(crate) swapped: Vec<String>,
}

/// A kind of change of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Increment,
    Push,
    /// Only at the revision that was seen.
    Swap(Option<Revision>),
    /// Changes the state, and then says no.
    Decline,
}

/// A change that is asked for under an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) id: String,
    pub(crate) board: u64,
    pub(crate) change: Change,
}

pub(crate) fn scope(caller: &Caller, space: &Space, board: u64) -> Scope<Board> {
    let id = space.right(&format!("board-{board}"));
    Tidelock::over(caller.store.clone()).scope::<Board>(ScopeKind::USER, id).within(BUDGET)
}

impl Wish {
    /// Asks for it until there is an answer, and notes that; whether it was done.
    pub(crate) async fn fulfil(&self, caller: &Caller, space: &Space) -> Result<bool, Bug> {
        let mut backoff = Backoff::new();
        loop {
            match self.ask(&scope(caller, space, self.board)).await {
                Answer::Done(revision, value) => {
                    caller.note(&Entry::Changed { id: self.id.clone(), revision, value });
                    return Ok(true);
                }
                Answer::Declined => {
                    caller.note(&Entry::Declined(self.id.clone()));
                    return Ok(false);
                }
                Answer::Nothing(trouble) => {
                    caller.note(&Entry::Stumbled {
                        during: "change".to_owned(),
                        trouble: trouble.clone(),
                    });
                    backoff.after(&trouble).await?;
                }
                Answer::Strange(what) => return Err(Bug(format!("change {:?}: {what}", self.id))),
            }
        }
    }

    async fn ask(&self, scope: &Scope<Board>) -> Answer {
        let mutation = scope.operation_id(self.id.as_str());
        match self.change {
            Change::Increment => answer(mutation.increment("count", 1).await),
            Change::Push => answer(mutation.push("pushed", &self.id).await),
            Change::Swap(at) => {
                let mutation = at.into_iter().fold(mutation, Mutation::at_revision);
                answer(mutation.mutate(|board| swap(board, &self.id)).await)
            }
            Change::Decline => {
                let decline = |board: &mut Board| {
                    board.pushed.push(self.id.clone());
                    Err::<i64, &str>("this says no")
                };
                answer(mutation.try_mutate(decline).await)
            }
        }
    }
}

fn swap(board: &mut Board, id: &str) -> usize {
    board.swapped.push(id.to_owned());
    board.swapped.len()
}

/// What came of a change.
enum Answer {
    /// It is there since this revision, and made the sum or the length this.
    Done(Revision, i64),
    /// It is not there, and never will be.
    Declined,
    /// The store gave none.
    Nothing(Trouble),
    /// What must not come of it.
    Strange(String),
}

fn answer<X: Debug>(mutated: Result<Mutated<impl TryInto<i64> + Debug>, ScopeError<X>>) -> Answer {
    match mutated {
        Ok(Mutated { value, outcome: MutationOutcome::Applied(revision), .. }) => {
            Answer::Done(revision, value.try_into().unwrap_or(i64::MAX))
        }
        Ok(other) => Answer::Strange(format!("it changed nothing: {other:?}")),
        Err(ScopeError::Store(error)) => Answer::Nothing(error.into()),
        Err(
            ScopeError::Refused(_)
            | ScopeError::Moved { .. }
            | ScopeError::TimedOut { .. }
            | ScopeError::Contended { .. },
        ) => Answer::Declined,
        Err(other) => Answer::Strange(format!("{other:?}")),
    }
}

/// What is on a board, and its revision.
pub(crate) async fn load(
    caller: &Caller,
    space: &Space,
    board: u64,
) -> Result<(Board, Option<Revision>), Bug> {
    let scope = scope(caller, space, board);
    let mut backoff = Backoff::new();
    loop {
        match scope.load().await {
            Ok(document) => return Ok((document.state_or_default(), document.revision)),
            Err(ScopeError::Store(error)) => backoff.after(&Trouble::from(error)).await?,
            Err(other) => return Err(Bug(other.to_string())),
        }
    }
}
