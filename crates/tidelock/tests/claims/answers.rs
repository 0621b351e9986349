//! A store that breaks its contract: it acknowledges commits without the revisions that they wrote.

use std::sync::Arc;

use tidelock::claims::ClaimError;
use tidelock::prelude::*;
use tidelock::store::{
    Commit, CommitOutcome, MemoryStore, Result, Store, StoreErrorKind, StoreLayer, async_trait,
};

#[derive(Debug)]
struct Silent(MemoryStore);

#[async_trait]
impl StoreLayer for Silent {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let mut outcome = self.0.commit(commit).await?;
        if let CommitOutcome::Committed(committed) = &mut outcome {
            committed.writes.clear();
        }
        Ok(outcome)
    }
}

/// CLAIM-1. Without the revision nothing tells under which fence the claim is held.
#[tokio::test]
async fn a_claim_without_a_revision_is_an_error_that_names_it() {
    let tidelock = Tidelock::over(Arc::new(Silent(MemoryStore::new())));
    let lock = tidelock.lock("door").acquire().await.unwrap_err();
    let key = tidelock.idempotency("pay").claim::<u32>().await.unwrap_err();
    let once = tidelock.singleton("welcome").take("now").await.unwrap_err();
    for (error, name) in [(lock, "door"), (key, "pay"), (once, "welcome")] {
        let ClaimError::Store(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
