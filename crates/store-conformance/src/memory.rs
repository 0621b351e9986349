//! The in-memory store as a subject: the suite's own first adapter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_store::{ManualClock, MemoryStore, Store};

use crate::case::Subject;

/// A new in-memory store on a clock that the suite moves.
#[derive(Debug)]
pub struct MemorySubject {
    clock: ManualClock,
    store: MemoryStore,
}

impl Default for MemorySubject {
    fn default() -> Self {
        let clock = ManualClock::default();
        Self { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }
}

#[async_trait]
impl Subject for MemorySubject {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    async fn set_forward(&self, duration: Duration) {
        self.clock.set_forward(duration);
    }

    async fn set_back(&self, duration: Duration) {
        self.clock.set_back(duration);
    }

    async fn sweep(&self) {
        self.store.sweep().await.expect("a memory store that is open can be swept");
    }
}
