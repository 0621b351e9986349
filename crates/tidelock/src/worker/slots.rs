//! Who may work at the same time: a pool for the whole worker, and a limit for each queue.

use std::sync::Arc;

use tidelock_store::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::QueueOptions;

/// The worker's pool.
#[derive(Debug)]
pub(super) struct Slots {
    pool: Arc<Semaphore>,
}

/// The right to work on one item.
#[derive(Debug)]
pub(super) struct Slot {
    _limit: OwnedSemaphorePermit,
    _pool: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self { pool: Arc::new(Semaphore::new(slots.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Waits for one slot and takes all others that are free with it: what ends together is
    /// refilled by one call.
    pub(super) async fn take(&self, served: &QueueOptions) -> Vec<Slot> {
        let mut slots = vec![self.wait(served).await];
        tokio::task::yield_now().await;
        while slots.len() < limits::LEASES_PER_CALL {
            let Some(slot) = self.free(served) else { break };
            slots.push(slot);
        }
        slots
    }

    async fn wait(&self, served: &QueueOptions) -> Slot {
        const NEVER: &str = "nobody closes the semaphores of a worker";
        let limit = served.limit.clone().acquire_owned().await.expect(NEVER);
        let pool = match served.pooled {
            true => Some(self.pool.clone().acquire_owned().await.expect(NEVER)),
            false => None,
        };
        Slot { _limit: limit, _pool: pool }
    }

    fn free(&self, served: &QueueOptions) -> Option<Slot> {
        let limit = served.limit.clone().try_acquire_owned().ok()?;
        let pool = match served.pooled {
            true => Some(self.pool.clone().try_acquire_owned().ok()?),
            false => None,
        };
        Some(Slot { _limit: limit, _pool: pool })
    }
}
