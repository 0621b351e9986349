//! Heartbeat: renews all leases of a worker, in batches, and notifies tasks whose lease is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{LeaseToken, Renewal, Result, Store, limits};
use tokio::sync::Notify;

use super::LeasedTask;

/// The leases held by a worker, and the loop that renews them.
#[derive(Debug)]
pub(super) struct Heartbeat {
    store: Arc<dyn Store>,
    /// Ordered, so that one history of the store gives one order of renewals.
    held: Mutex<BTreeMap<LeaseToken, LeasedTask>>,
    /// Notified when a lease is added.
    added: Notify,
}

/// Keeps a lease in the heartbeat. Dropping it ends the renewals.
#[derive(Debug)]
pub(super) struct RenewalGuard {
    heartbeat: Arc<Heartbeat>,
    token: LeaseToken,
}

impl Heartbeat {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, held: Mutex::default(), added: Notify::new() }
    }

    /// Renews this task's lease until the guard is dropped.
    pub(super) fn register(self: &Arc<Self>, task: &LeasedTask) -> RenewalGuard {
        let token = task.token();
        self.lock().insert(token.clone(), task.clone());
        self.added.notify_one();
        RenewalGuard { heartbeat: self.clone(), token }
    }

    /// Renews at a third of the shortest lease, and sleeps while there is none.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let Some(shortest) = self.shortest() else {
                self.added.notified().await;
                continue;
            };
            // A shorter lease that is added meanwhile must not wait for the longer interval.
            tokio::select! {
                biased;
                () = tokio::time::sleep(shortest / 3) => {}
                () = self.shorter_than(shortest) => continue,
            }
            self.renew_all().await;
        }
    }

    /// Notifies every task that its lease is no longer renewed.
    pub(super) fn cancel_all(&self) {
        for task in self.lock().values() {
            task.lost().cancel();
        }
    }

    async fn shorter_than(&self, duration: Duration) {
        while self.shortest().is_none_or(|shortest| shortest >= duration) {
            self.added.notified().await;
        }
    }

    fn shortest(&self) -> Option<Duration> {
        self.lock().values().map(LeasedTask::duration).min()
    }

    /// One call per lease duration and batch; workers rarely use more than one duration.
    async fn renew_all(&self) {
        let mut by_length: BTreeMap<Duration, Vec<LeaseToken>> = BTreeMap::new();
        for (token, task) in self.lock().iter() {
            match task.stuck_for() {
                None => by_length.entry(task.duration()).or_default().push(token.clone()),
                // A blocked thread cannot be dropped, but its code can check whether the lease is
                // lost.
                Some(over) if over > task.duration() => task.lost().cancel(),
                Some(_) => {}
            }
        }
        for (duration, tokens) in by_length {
            for tokens in tokens.chunks(limits::LEASES_PER_CALL) {
                if let Err(error) = self.renew(tokens, duration).await {
                    tracing::warn!(%error, leases = tokens.len(), "leases could not be renewed");
                }
            }
        }
    }

    async fn renew(&self, tokens: &[LeaseToken], duration: Duration) -> Result<()> {
        let renewals = self.store.renew(tokens, duration).await?;
        for (token, renewal) in tokens.iter().zip(renewals) {
            if matches!(renewal, Renewal::Lost(_)) {
                self.lose(token);
            }
        }
        Ok(())
    }

    /// A task that was settled meanwhile is already gone, or learns of it from its own commit.
    fn lose(&self, token: &LeaseToken) {
        if let Some(task) = self.lock().remove(token) {
            task.lost().cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, LeasedTask>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        self.heartbeat.lock().remove(&self.token);
    }
}
