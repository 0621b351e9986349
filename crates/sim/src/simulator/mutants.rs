//! Mutants: the store with one promise broken, or a pattern with one defect, as positive controls.
//! A search that does not find them would not find the defects of the product.

use std::sync::Arc;

use tidelock::store::{
    Commit, CommitOutcome, ExpectedRevision, Result, Store, StoreExt, StoreLayer, async_trait,
};

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// Accepts every lease as the current one.
    IgnoresFences,
    /// Checks no revision.
    IgnoresRevisions,
}

impl Mutant {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::IgnoresFences, Self::IgnoresRevisions];
}

/// The store with this defect, if there is one.
pub(crate) fn over(store: Arc<dyn Store>, mutant: Option<Mutant>, _: u64) -> Arc<dyn Store> {
    match mutant {
        Some(mutant) => Arc::new(Mutated { store, mutant }),
        None => store,
    }
}

#[derive(Debug)]
struct Mutated {
    store: Arc<dyn Store>,
    mutant: Mutant,
}

#[async_trait]
impl StoreLayer for Mutated {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, mut commit: Commit) -> Result<CommitOutcome> {
        match self.mutant {
            Mutant::IgnoresFences => {
                let settled = commit.settlements.iter_mut().map(|settled| &mut settled.lease);
                for lease in settled.chain(&mut commit.fences) {
                    let found = self.store.item(&lease.item).await?;
                    lease.fence = found.and_then(|item| item.fence).unwrap_or(lease.fence);
                }
            }
            Mutant::IgnoresRevisions => {
                commit.writes.iter_mut().for_each(|w| w.expected = ExpectedRevision::Any);
            }
        }
        self.store.commit(commit).await
    }
}
