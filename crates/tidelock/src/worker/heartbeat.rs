//! Keeps the leases of a worker alive, all of them in one call, and tells whoever lost one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{LeaseToken, Renewal, Result, Store, limits};
use tokio::sync::Notify;

use super::LeasedTask;

/// The leases that are held, and the beat that renews them.
#[derive(Debug)]
pub(super) struct Heartbeat {
    store: Arc<dyn Store>,
    held: Mutex<HashMap<LeaseToken, LeasedTask>>,
    /// Told when there is something to renew after there was nothing.
    begun: Notify,
}

/// Holds a place in the heartbeat; the lease is renewed no more when this goes away.
#[derive(Debug)]
pub(super) struct RenewalGuard {
    heartbeat: Arc<Heartbeat>,
    token: LeaseToken,
}

impl Heartbeat {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, held: Mutex::default(), begun: Notify::new() }
    }

    /// Renews this task's lease from now on.
    pub(super) fn keep(self: &Arc<Self>, task: &LeasedTask) -> RenewalGuard {
        let token = task.token();
        self.lock().insert(token.clone(), task.clone());
        self.begun.notify_one();
        RenewalGuard { heartbeat: self.clone(), token }
    }

    /// Beats at a third of the shortest lease that is held, and not at all while there is none.
    pub(super) async fn beat(self: Arc<Self>) {
        loop {
            let Some(shortest) = self.shortest() else {
                self.begun.notified().await;
                continue;
            };
            // A shorter lease that comes meanwhile must not wait for a longer one's beat.
            tokio::select! {
                () = tokio::time::sleep(shortest / 3) => {}
                () = self.shorter_than(shortest) => continue,
            }
            self.renew_all().await;
        }
    }

    /// Tells every holder to come to an end: nobody will renew for them any more.
    pub(super) fn tell_all(&self) {
        for task in self.lock().values() {
            task.lost().cancel();
        }
    }

    async fn shorter_than(&self, duration: Duration) {
        while self.shortest().is_none_or(|shortest| shortest >= duration) {
            self.begun.notified().await;
        }
    }

    fn shortest(&self) -> Option<Duration> {
        self.lock().values().map(LeasedTask::duration).min()
    }

    /// One call for all leases of the same length; there is hardly ever more than one length.
    async fn renew_all(&self) {
        let mut by_length: HashMap<Duration, Vec<LeaseToken>> = HashMap::new();
        for (token, task) in self.lock().iter() {
            match task.stuck_for() {
                None => by_length.entry(task.duration()).or_default().push(token.clone()),
                // A blocked thread cannot be dropped; but what it runs can look at whether its
                // lease is lost.
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

    /// Whoever settled meanwhile has left already, or learns from the reply to its own commit.
    fn lose(&self, token: &LeaseToken) {
        if let Some(task) = self.lock().remove(token) {
            task.lost().cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseToken, LeasedTask>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        self.heartbeat.lock().remove(&self.token);
    }
}
