//! Target: what differs between the keys that are group-committed.

use std::hash::Hash;

use tidelock_store::{Commit, CommitOutcome, Committed, Conflict, Result};

/// The cached state of one key, with its pending changes. Every method runs under the entry's lock,
/// which is never held across an await.
pub(crate) trait Target: Default + Send + 'static {
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// What a caller decides on.
    type View: Send + Sync;
    /// The change of one caller.
    type Change;
    /// The changes of one batch.
    type Changes: Default + Send;
    /// Where a caller's change is in its batch.
    type Share;
    /// The version that a commit expects.
    type Expected: Copy + Send;
    /// The result of a batch that landed.
    type Receipt: Send + Sync;

    /// Returns the state with all pending changes; `None` if it has to be read from the store.
    fn view(&mut self) -> Option<Self::View>;

    /// The version that a commit based on this view expects, if nothing is pending.
    fn expected(view: &Self::View) -> Self::Expected;

    /// Whether a batch has room for another change.
    fn has_room(changes: &Self::Changes, change: &Self::Change) -> bool;

    /// Makes a change pending. If this panics, `changes` must be as before.
    fn add(&mut self, changes: &mut Self::Changes, change: Self::Change) -> Self::Share;

    /// Builds the commit of a batch. Called once: every attempt sends the same commit.
    fn seal(key: &Self::Key, expected: Self::Expected, changes: &mut Self::Changes) -> Commit;

    /// Applies a batch that landed to the state, which is `None` if it no longer has the batch's
    /// changes as its oldest pending ones.
    fn landed(
        state: Option<&mut Self>,
        changes: &Self::Changes,
        committed: &Committed,
    ) -> Self::Receipt;

    /// The version that the batch behind this one expects.
    fn after(receipt: &Self::Receipt) -> Self::Expected;

    /// Drops all pending changes. The conflict may carry the stored state.
    fn discard(&mut self, key: &Self::Key, conflict: Option<&Conflict>);

    /// Forces the next view to be read from the store, unless changes are pending.
    fn invalidate(&mut self);

    /// Drops the state.
    fn clear(&mut self);

    /// Whether the state is worth caching while it is not in use.
    fn is_worth_caching(&self) -> bool;
}

/// Sends commits.
pub(crate) trait Submit: Sync {
    /// Sends a commit until its outcome is known, or the retry policy is used up.
    fn submit(&self, commit: &Commit) -> impl Future<Output = Result<CommitOutcome>> + Send;
}
