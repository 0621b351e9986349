//! The runs that this process is driving.
//!
//! Activations of one run never overlap in a process: if the lease moves to another worker of the
//! same process, the earlier driver is cancelled and waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::RunId;
use crate::worker::LeasedTask;

/// The active runs, shared by all clones of a handle.
#[derive(Debug, Default)]
pub(crate) struct Active {
    slots: Mutex<HashMap<RunId, Arc<RunSlot>>>,
}

/// The driver lock of a run.
#[derive(Debug, Default)]
struct RunSlot {
    driving: Arc<tokio::sync::Mutex<()>>,
    /// Cancels the current driver when its lease is lost.
    holder: Mutex<CancellationToken>,
}

/// The driver lock, held. Its owner drives the run in this process.
#[derive(Debug)]
pub(crate) struct DriverLock {
    active: Arc<Active>,
    run: RunId,
    slot: Arc<RunSlot>,
    _driving: OwnedMutexGuard<()>,
}

impl Active {
    /// Cancels the previous driver of the run and waits until it has stopped.
    pub(crate) async fn lock(self: &Arc<Self>, run: &RunId, task: &LeasedTask) -> DriverLock {
        let slot = lock(&self.slots).entry(run.clone()).or_default().clone();
        lock(&slot.holder).cancel();
        let driving = slot.driving.clone().lock_owned().await;
        lock(&slot.holder).clone_from(task.lost());
        DriverLock { active: self.clone(), run: run.clone(), slot, _driving: driving }
    }
}

impl Drop for DriverLock {
    fn drop(&mut self) {
        let mut slots = lock(&self.active.slots);
        // The map's reference and this one: no other driver waits.
        if Arc::strong_count(&self.slot) == 2 {
            slots.remove(&self.run);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
