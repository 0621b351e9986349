//! Group commit: changes of one key, queued in FIFO order and committed in batches.
//!
//! A key is a stream or a durable scope; [`Target`] is what differs between the two. The caller
//! that holds a key's lock decides on the state as it will be once all pending changes are
//! committed. It adds its change to the open batch and releases the lock. Meanwhile the previous
//! batch is being committed; the open one follows when that has landed. A hot key therefore costs
//! one commit for many changes, without conflicts inside the process. If a batch fails, every
//! change on top of it fails too, and all of them are decided again.
//!
//! An answer without a commit, such as a refusal, must rest neither on uncommitted changes nor on a
//! stale state: see [`Entry::confirm`].
//!
//! No task is spawned: the callers that wait for a batch drive it.

mod batch;
mod cache;
mod entry;
mod sync;
mod target;

pub(crate) use batch::{Outcome, Waiter};
pub(crate) use cache::{CacheEntry, StateCache};
pub(crate) use entry::{Confirmed, Entry, View};
pub(crate) use target::{Submit, Target};
