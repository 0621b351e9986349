//! What a store does by itself, from time to time, while it is being used: it writes its clock
//! down, and throws away what has had its time.

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

/// Commits, and a feed, that wait for longer than this wait for somebody who should be named.
const LONG: Duration = Duration::from_secs(1);

/// An idle handle looks for what is due this much more rarely than one that is used.
const IDLE: u32 = 10;

/// The longest time for which an idle handle does not look again, though nothing is said to be due.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// What a round leaves for the next one.
#[derive(Debug, Clone, Copy, Default)]
struct MaintenanceState {
    /// The feed is behind, so the next round looks again though nothing is committed any more.
    behind: bool,
    /// Something is or will be due then, so it is swept though nothing is committed any more.
    sweep_at: Option<Instant>,
}

/// Ends with the last handle on the store. What was due before is swept in the first round, though
/// the store is only read, unless it was opened to look.
pub(crate) async fn maintain(store: Weak<Shared>, interval: Duration, sweeps_alone: bool) {
    let mut house = MaintenanceState {
        sweep_at: sweeps_alone.then(Instant::now),
        ..MaintenanceState::default()
    };
    loop {
        tokio::time::sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        if store.place.is_closed() {
            return;
        }
        house = watch(&store, round(&store, interval, house)).await;
    }
}

/// While the server says nothing, looks from time to time whether another has taken its place, for
/// one that was replaced may keep everybody waiting for ever. Ends with the store.
async fn watch(
    store: &Arc<Shared>,
    round: impl Future<Output = MaintenanceState>,
) -> MaintenanceState {
    let mut round = pin!(round);
    loop {
        if let Ok(house) = timeout(store.place.connect_timeout, &mut round).await {
            return house;
        }
        if store.place.is_closed() || Arc::strong_count(store) == 1 {
            return MaintenanceState::default();
        }
        if let Err(error) = store.place.enter(None).await {
            tracing::debug!(%error, "the server does not answer, nor does another");
        }
    }
}

async fn round(store: &Shared, interval: Duration, house: MaintenanceState) -> MaintenanceState {
    let used = store.used.swap(false, Ordering::Relaxed) || store.committer.waiting() > 0;
    // First, because the sweep may have to wait for the same session.
    tell_who_holds_up_commits(store).await;
    let due = house.sweep_at.is_some_and(|at| at <= Instant::now());
    let sweep_at = match (used, due) {
        (false, false) => house.sweep_at,
        _ => sweep(store, interval, used).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "housekeeping failed");
            // A role that may not sweep leaves it to those that may.
            (!is_denied(&error)).then(Instant::now)
        }),
    };
    MaintenanceState {
        behind: (used || house.behind) && tell_who_holds_up_the_feed(store).await,
        sweep_at,
    }
}

/// Whoever holds them up is looked for among all sessions of the server. So only those look who are
/// held up.
async fn tell_who_holds_up_commits(store: &Shared) {
    if store.committer.busy_for() < LONG {
        return;
    }
    let commits =
        blockers::commits(&store.housekeeping, &store.committer).await.unwrap_or_default();
    if let Some(commits) = commits.filter(|commits| commits.waiting_for >= LONG) {
        tracing::warn!(?commits, "commits are held up by a database session");
    }
}

async fn tell_who_holds_up_the_feed(store: &Shared) -> bool {
    let Ok(feed) = blockers::feed(&store.housekeeping).await else { return false };
    if let Some(feed) = feed.as_ref().filter(|feed| feed.standing_for >= LONG) {
        tracing::warn!(?feed, "the feed is held up by a database session");
    }
    feed.is_some()
}

/// Writes the clock down and removes what is due, for half an interval at most; says when to do so
/// again though the store is not used.
async fn sweep(store: &Shared, interval: Duration, used: bool) -> Result<Option<Instant>> {
    let link = &store.housekeeping;
    if used {
        store.time.tick(link, interval).await?;
    }
    let swept = forget::forget(link, Instant::now() + interval / 2).await?;
    let rest = match swept {
        Swept::Cut => Duration::ZERO,
        Swept::Left | Swept::Busy => interval * IDLE,
        Swept::All { next: Some(next) } => next.clamp(interval * IDLE, A_DAY.max(interval * IDLE)),
        Swept::All { next: None } => return Ok(None),
    };
    Ok(Some(Instant::now() + rest))
}
