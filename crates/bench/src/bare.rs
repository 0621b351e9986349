//! The bare limit: what the database does by itself, with nothing of ours in between.
//!
//! A bare loop knows everything beforehand (ids of streams, versions, positions, who holds what), checks nothing, and
//! puts into one transaction what all callers together could at best have queued. Whoever gets near it has spent
//! almost nothing on the contract.
//!
//! The memory store has nothing under it, and so no bare limit.

mod sqlite;

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::site::Site;

/// A loop over groups.
pub(crate) trait Bare: Send {
    /// Does one group after the other, each in one transaction, for as long as there is time for one more; gives the
    /// number of operations.
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure>;
}

/// None for a store without a limit below it.
type Loops = Result<Vec<Box<dyn Bare>>, Failure>;

/// Makes the bare loop's file of a store that was closed.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    sqlite::copy(from, to)
}

/// One commit of each of the callers in every group.
pub(crate) fn commits(site: &Site, callers: usize, events: usize) -> Loops {
    one(site, |path| sqlite::commits(path, callers, events))
}

/// One stream in every group, on this many threads.
pub(crate) fn loads(site: &Site, threads: usize, events: usize) -> Loops {
    let Some(path) = &site.bare else { return Ok(Vec::new()) };
    (0..threads).map(|_| sqlite::loads(path, events)).collect()
}

/// One page in every group.
pub(crate) fn feed(site: &Site, page: usize) -> Loops {
    one(site, |path| sqlite::feed(path, page))
}

/// One transaction that leases and one that settles in every group.
pub(crate) fn leases(site: &Site, items: usize, duration: Duration) -> Loops {
    one(site, |path| sqlite::leases(path, items, duration))
}

/// One new record of each of the callers in every group.
pub(crate) fn sets(site: &Site, callers: usize) -> Loops {
    one(site, |path| sqlite::sets(path, callers))
}

/// One vain try of each of the callers in every group.
pub(crate) fn refused_sets(site: &Site, callers: usize) -> Loops {
    one(site, |path| sqlite::refused_sets(path, callers))
}

/// One addition of each of the callers in every group.
pub(crate) fn adds(site: &Site, callers: usize) -> Loops {
    one(site, |path| sqlite::adds(path, callers))
}

fn one(site: &Site, make: impl FnOnce(&Path) -> Result<Box<dyn Bare>, Failure>) -> Loops {
    site.bare.as_deref().map(make).transpose().map(|bare| bare.into_iter().collect())
}
