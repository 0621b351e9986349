//! Background maintenance of a store in use: saves its clock and enforces retention.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidelock_store::Result;
use tokio::time::{Instant, timeout};

use crate::Shared;
use crate::blockers;
use crate::error::is_denied;
use crate::forget::{self, Swept};

/// When commits or the feed have waited for longer than this, the blocking session is logged.
const LONG: Duration = Duration::from_secs(1);

/// An idle handle checks for due rows this much more rarely than one that is used.
const IDLE: u32 = 10;

/// The longest time between two checks of an idle handle, although nothing is known to be due.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// State from one round to the next.
#[derive(Debug, Clone, Copy, Default)]
struct MaintenanceState {
    /// The feed is behind, so the next round checks again although nothing is committed any more.
    behind: bool,
    /// Something is or will be due then, so it is swept although nothing is committed any more.
    sweep_at: Option<Instant>,
}

/// Runs until the last handle of the store is dropped. What was due before is swept in the first
/// round, even if the store is only read, unless it was opened without migrations.
pub(crate) async fn maintain(store: Weak<Shared>, interval: Duration, sweeps_when_idle: bool) {
    let mut state = MaintenanceState {
        sweep_at: sweeps_when_idle.then(Instant::now),
        ..MaintenanceState::default()
    };
    loop {
        tokio::time::sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        if store.connector.is_closed() {
            return;
        }
        state = watch(&store, round(&store, interval, state)).await;
    }
}

/// While the server does not answer, checks from time to time whether another has replaced it,
/// because a replaced server may never answer. Ends with the store.
async fn watch(
    store: &Arc<Shared>,
    round: impl Future<Output = MaintenanceState>,
) -> MaintenanceState {
    let mut round = pin!(round);
    loop {
        if let Ok(state) = timeout(store.connector.connect_timeout, &mut round).await {
            return state;
        }
        if store.connector.is_closed() || Arc::strong_count(store) == 1 {
            return MaintenanceState::default();
        }
        if let Err(error) = store.connector.enter(None).await {
            tracing::debug!(%error, "the server does not answer, nor does another");
        }
    }
}

async fn round(store: &Shared, interval: Duration, state: MaintenanceState) -> MaintenanceState {
    let used = store.used.swap(false, Ordering::Relaxed) || store.committer.waiting() > 0;
    // First, because the sweep may have to wait for the same session.
    log_commit_blockers(store).await;
    let due = state.sweep_at.is_some_and(|at| at <= Instant::now());
    let sweep_at = match (used, due) {
        (false, false) => state.sweep_at,
        _ => sweep(store, interval, used).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "maintenance failed");
            // A role that may not sweep leaves it to others.
            (!is_denied(&error)).then(Instant::now)
        }),
    };
    MaintenanceState { behind: (used || state.behind) && log_feed_blockers(store).await, sweep_at }
}

/// Finding the blocking session reads all sessions of the server, so only blocked processes do it.
async fn log_commit_blockers(store: &Shared) {
    if store.committer.busy_for() < LONG {
        return;
    }
    let commits = blockers::commits(&store.maintenance, &store.committer).await.unwrap_or_default();
    if let Some(commits) = commits.filter(|commits| commits.waiting_for >= LONG) {
        tracing::warn!(?commits, "commits are held up by a database session");
    }
}

async fn log_feed_blockers(store: &Shared) -> bool {
    let Ok(feed) = blockers::feed(&store.maintenance).await else { return false };
    if let Some(feed) = feed.as_ref().filter(|feed| feed.standing_for >= LONG) {
        tracing::warn!(?feed, "the feed is held up by a database session");
    }
    feed.is_some()
}

/// Saves the clock and removes due rows, for half an interval at most; returns when to do so again
/// while the store is not used.
async fn sweep(store: &Shared, interval: Duration, used: bool) -> Result<Option<Instant>> {
    let connection = &store.maintenance;
    if used {
        store.time.tick(connection, interval).await?;
    }
    let swept = forget::forget(connection, Instant::now() + interval / 2).await?;
    let rest = match swept {
        Swept::Cut => Duration::ZERO,
        Swept::Left | Swept::Busy => interval * IDLE,
        Swept::All { next: Some(next) } => next.clamp(interval * IDLE, A_DAY.max(interval * IDLE)),
        Swept::All { next: None } => return Ok(None),
    };
    Ok(Some(Instant::now() + rest))
}
