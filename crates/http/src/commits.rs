//! How much is committed: counted where a process has its handle on the store, and nowhere else.
//!
//! A store does not count its commits, and to find them in the feed would be to read all of it. So
//! whoever opens the store has this process's commits counted, and hands the count to the
//! [`Api`](crate::Api). What other processes commit is not in it, nor what goes through a database
//! driver's own door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock::store::Result;
use tidelock::{Commit, CommitOutcome, Store, StoreLayer, async_trait};

/// How many commits were made through a handle on a store. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<AtomicU64>);

impl Commits {
    /// A handle on the same store, and the count of what is committed through it from now on. What
    /// is refused does not count.
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

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store that counts commits, and is otherwise the one behind it.
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
    use tidelock::{ExpectedVersion, NewEvent, StoreExt, StreamName};

    use super::*;

    #[tokio::test]
    async fn what_lands_is_counted_and_what_is_refused_is_not() {
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
