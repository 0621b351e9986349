//! Several rights that are held together: renewed, completed and given back in one commit each.

use serde::Serialize;
use tidelock_store::{Commit, Committed, Fence, Json};
use tokio_util::sync::CancellationToken;

use super::super::holding::{Hold, Holding};
use super::super::{ClaimError, ClaimKey, Grant};
use crate::events::sender;

/// Several rights, held together. Their leases are renewed until this goes away.
///
/// If it is dropped before it is completed, locks are given back if there are only locks and quotas; otherwise nobody knows how
/// far the work has come, and everything is free when its lease has run out.
#[derive(Debug)]
#[must_use = "what is held together is given back, or runs out, together"]
pub struct AllOf {
    holding: Box<Holding>,
    grants: Vec<(ClaimKey, Grant)>,
    over: bool,
}

impl AllOf {
    pub(super) fn new(holding: Holding, grants: Vec<(ClaimKey, Grant)>) -> Self {
        Self { holding: Box::new(holding), grants, over: false }
    }

    /// The names and fences of what is held.
    pub fn fences(&self) -> impl Iterator<Item = (&ClaimKey, Fence)> {
        self.holding.holds().iter().map(|hold| (&hold.key, hold.fence()))
    }

    /// What was taken of quotas.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().map(|(_, grant)| grant)
    }

    /// The names of all that is held, for people.
    pub fn names(&self) -> String {
        super::names(
            self.holding.holds().iter().map(|hold| &hold.key).chain(self.grants.iter().map(|g| &g.0)),
        )
    }

    /// Cancelled when one of these is lost: whatever is completed from then on is refused, so stop.
    pub fn lost(&self) -> &CancellationToken {
        self.holding.lost()
    }

    /// Commits, provided that all of these are still held.
    ///
    /// # Errors
    /// `Lost` if somebody else has one of them; `Refused` if some other part does not hold.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.holding.commit(commit).await
    }

    /// Completes keys and singletons with this result and gives locks back, in one commit.
    ///
    /// # Errors
    /// `Lost` if somebody else has one of them: then nothing is completed and nothing given back.
    pub async fn complete(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        self.complete_with(value, Commit::new()).await
    }

    /// The same, in one commit with what the result stands for.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); and `Refused` if some part of the commit does not hold. Everything is still held then.
    pub async fn complete_with(
        &mut self,
        value: &(impl Serialize + ?Sized),
        with: Commit,
    ) -> Result<(), ClaimError> {
        let value = Json::new(value)?;
        let commit = self.holding.holds().iter().try_fold(with, |commit, hold| end(hold, commit, &value))?;
        self.end(commit).await
    }

    /// Undoes all of it: keys, singletons and locks are free again, and what was taken of quotas goes back.
    ///
    /// # Errors
    /// `Lost` if somebody else has one of them: then nothing is given back.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        loop {
            let commit = self.holding.holds().iter().fold(Commit::new(), |commit, hold| hold.release(commit));
            let commit =
                self.grants.iter().try_fold(commit, |commit, (key, grant)| grant.give_back(commit, key))?;
            let conflict = match self.end(commit).await {
                Err(ClaimError::Refused { conflict, .. }) => conflict,
                ended => return ended,
            };
            // What was taken from a period that is over has nowhere to go back to.
            let before = self.grants.len();
            self.grants.retain(|(key, grant)| !grant.is_over(&conflict, key).unwrap_or(false));
            if self.grants.len() == before {
                return Err(self.holding.refused(*conflict));
            }
        }
    }

    async fn end(&mut self, commit: Commit) -> Result<(), ClaimError> {
        if commit.parts() > 0 {
            // With nothing held there is nothing to tell by whether an earlier try has landed.
            let commit = if self.holding.holds().is_empty() { sender::repeatable(commit) } else { commit };
            self.holding.end(commit).await?;
        }
        self.over = true;
        Ok(())
    }
}

fn end(hold: &Hold, commit: Commit, value: &Json) -> Result<Commit, ClaimError> {
    match hold.is_lock() {
        true => Ok(hold.release(commit)),
        false => Ok(commit.write(hold.conclude(&hold.entry.done(value.clone(), hold.since))?)),
    }
}

impl Drop for AllOf {
    fn drop(&mut self) {
        if !self.over && self.holding.holds().iter().all(Hold::is_lock) {
            self.holding.release_later();
        }
    }
}
