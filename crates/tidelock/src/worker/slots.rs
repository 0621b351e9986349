//! Slots: a semaphore for the whole worker, and one per queue.

use std::sync::Arc;

use tidelock_store::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::QueueOptions;

/// The worker's slots.
#[derive(Debug)]
pub(super) struct Slots {
    pool: Arc<Semaphore>,
}

/// A permit to process one item.
#[derive(Debug)]
pub(super) struct Slot {
    _limit: OwnedSemaphorePermit,
    _pool: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self { pool: Arc::new(Semaphore::new(slots.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Waits for one slot and takes all others that are free, so that one call refills the slots of
    /// tasks that end together.
    pub(super) async fn take(&self, options: &QueueOptions) -> Vec<Slot> {
        let mut slots = vec![self.wait(options).await];
        tokio::task::yield_now().await;
        while slots.len() < limits::LEASES_PER_CALL {
            let Some(slot) = self.free(options) else { break };
            slots.push(slot);
        }
        slots
    }

    async fn wait(&self, options: &QueueOptions) -> Slot {
        const NEVER: &str = "a worker never closes its semaphores";
        let limit = options.limit.clone().acquire_owned().await.expect(NEVER);
        let pool = match options.pooled {
            true => Some(self.pool.clone().acquire_owned().await.expect(NEVER)),
            false => None,
        };
        Slot { _limit: limit, _pool: pool }
    }

    fn free(&self, options: &QueueOptions) -> Option<Slot> {
        let limit = options.limit.clone().try_acquire_owned().ok()?;
        let pool = match options.pooled {
            true => Some(self.pool.clone().try_acquire_owned().ok()?),
            false => None,
        };
        Some(Slot { _limit: limit, _pool: pool })
    }
}
