//! Commit counter: counts the commits that one process makes through its handle to the store.
//!
//! A store does not count its commits, and counting them in the feed would mean reading all of it.
//! So the process that opens the store wraps it in a counter and hands that to the
//! [`Api`](crate::Api). Commits by other processes are not counted, nor those made through a
//! database driver directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock::store::{Commit, CommitOutcome, Result, Store, StoreLayer, async_trait};

/// The number of commits made through a handle to a store. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<AtomicU64>);

impl Commits {
    /// Wraps a store, and returns it with the count of commits made through it from now on. Refused
    /// commits do not count.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tidelock::Tidelock;
    /// # use tidelock_http::{Api, Commits};
    /// let (store, commits) = Commits::counted(tidelock::open("memory:").await?);
    /// let api = Api::over(&Tidelock::over(store)).commits(commits);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counted(store: Arc<dyn Store>) -> (Arc<dyn Store>, Self) {
        let commits = Self::default();
        (Arc::new(Counting { store, commits: commits.clone() }), commits)
    }

    /// Returns the number of commits so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store that counts commits and delegates everything to the store behind it.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Store>,
    commits: Commits,
}

#[async_trait]
impl StoreLayer for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let outcome = self.store.commit(commit).await;
        if matches!(outcome, Ok(CommitOutcome::Committed(_))) {
            self.commits.0.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tidelock::ExpectedVersion;
    use tidelock::store::{NewEvent, StoreExt, StreamName};

    use super::*;

    #[tokio::test]
    async fn commits_are_counted_and_refusals_are_not() {
        let (store, commits) = Commits::counted(tidelock::open("memory:").await.unwrap());
        let stream = StreamName::new("a").unwrap();
        for expected in [ExpectedVersion::NoStream, ExpectedVersion::NoStream, ExpectedVersion::Any]
        {
            let event = NewEvent::of("noted", &1).unwrap();
            let _landed_or_not = store.append(&stream, expected, vec![event]).await.unwrap();
        }
        assert_eq!(commits.get(), 2);
    }
}
