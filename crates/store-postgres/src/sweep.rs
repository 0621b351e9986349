//! What a store does by itself, from time to time, while it is being used: it writes its clock down, and throws away what has
//! had its time.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidelock_store::{Result, limits};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::held_up;
use crate::statement::{Statement, now};

/// Commits, and a feed, that wait for longer than this wait for somebody who should be named.
const LONG: Duration = Duration::from_secs(1);

/// How many rows go at once.
const AT_ONCE: i64 = 500;

static EXPIRED: Statement = Statement::new(
    concat!(
        "UPDATE tidelock.records SET value = NULL, expires_at = NULL WHERE key IN (
            SELECT key FROM tidelock.records WHERE expires_at <= ",
        now!(),
        " ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)"
    ),
    &[Type::INT8],
);
static FORGOTTEN: Statement = Statement::new(
    concat!(
        "DELETE FROM tidelock.commits WHERE id IN (
            SELECT id FROM tidelock.commits WHERE committed_at <= ",
        now!(),
        " - $2 ORDER BY committed_at LIMIT $1 FOR UPDATE SKIP LOCKED)"
    ),
    &[Type::INT8, Type::INT8],
);

/// Ends with the last handle on the store.
pub(crate) async fn keep_house(store: Weak<Shared>, interval: Duration) {
    let mut behind = false;
    loop {
        tokio::time::sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        if store.place.is_closed() {
            return;
        }
        behind = watch(&store, round(&store, interval, behind)).await;
    }
}

/// While the server says nothing, looks from time to time whether another has taken its place, for one that was replaced may
/// keep everybody waiting for ever. Ends with the store.
async fn watch(store: &Arc<Shared>, round: impl Future<Output = bool>) -> bool {
    let mut round = pin!(round);
    loop {
        if let Ok(behind) = timeout(store.place.connect_timeout, &mut round).await {
            return behind;
        }
        if store.place.is_closed() || Arc::strong_count(store) == 1 {
            return false;
        }
        if let Err(error) = store.place.enter(None).await {
            tracing::debug!(%error, "the server does not answer, nor does another");
        }
    }
}

/// Says whether the feed is behind, so that somebody goes on looking though nobody commits any more.
async fn round(store: &Shared, interval: Duration, behind: bool) -> bool {
    let used = store.used.swap(false, Ordering::Relaxed) || store.committer.waiting() > 0;
    // First, because the sweep may have to wait for the same session.
    tell_who_holds_up_commits(store).await;
    if used && let Err(error) = sweep(store, interval).await {
        tracing::debug!(%error, "housekeeping failed; the next round will do it");
    }
    (used || behind) && tell_who_holds_up_the_feed(store).await
}

/// Whoever holds them up is looked for among all sessions of the server. So only those look who are held up.
async fn tell_who_holds_up_commits(store: &Shared) {
    if store.committer.busy_for() < LONG {
        return;
    }
    let commits = held_up::commits(&store.housekeeping, &store.committer).await.unwrap_or_default();
    if let Some(commits) = commits.filter(|commits| commits.waiting_for >= LONG) {
        tracing::warn!(?commits, "commits are held up by a database session");
    }
}

async fn tell_who_holds_up_the_feed(store: &Shared) -> bool {
    let Ok(feed) = held_up::feed(&store.housekeeping).await else { return false };
    if let Some(feed) = feed.as_ref().filter(|feed| feed.standing_for >= LONG) {
        tracing::warn!(?feed, "the feed is held up by a database session");
    }
    feed.is_some()
}

async fn sweep(store: &Shared, interval: Duration) -> Result<()> {
    let link = &store.housekeeping;
    store.time.tick(link, interval).await?;
    link.read(&EXPIRED, &[&AT_ONCE]).await?;
    let memory = limits::COMMIT_MEMORY.as_micros() as i64;
    link.read(&FORGOTTEN, &[&AT_ONCE, &memory]).await.map(|_| ())
}
