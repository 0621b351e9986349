//! The runs that one process drives at the moment.
//!
//! Activations of one run never overlap in a process: whoever lost its lease to another worker of
//! the same process is told, and waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::RunId;
use crate::worker::LeasedTask;

/// Shared by all clones of a handle.
#[derive(Debug, Default)]
pub(crate) struct Active {
    seats: Mutex<HashMap<RunId, Arc<Seat>>>,
}

/// The place of a run's driver.
#[derive(Debug, Default)]
struct Seat {
    taken: Arc<tokio::sync::Mutex<()>>,
    /// Tells whoever sits there that its lease is lost.
    holder: Mutex<CancellationToken>,
}

/// Whoever has this drives the run in this process.
#[derive(Debug)]
pub(crate) struct Seated {
    active: Arc<Active>,
    run: RunId,
    seat: Arc<Seat>,
    _taken: OwnedMutexGuard<()>,
}

impl Active {
    /// Takes the place of whoever drove the run before, as soon as it has let go.
    pub(crate) async fn sit(self: &Arc<Self>, run: &RunId, task: &LeasedTask) -> Seated {
        let seat = lock(&self.seats).entry(run.clone()).or_default().clone();
        lock(&seat.holder).cancel();
        let taken = seat.taken.clone().lock_owned().await;
        lock(&seat.holder).clone_from(task.lost());
        Seated { active: self.clone(), run: run.clone(), seat, _taken: taken }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut seats = lock(&self.active.seats);
        // The map's and this one's: nobody waits for the place.
        if Arc::strong_count(&self.seat) == 2 {
            seats.remove(&self.run);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
