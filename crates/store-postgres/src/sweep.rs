//! What a store does by itself, from time to time, while it is being used: it writes its clock down, and throws away what has
//! had its time.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_store::{Result, limits};
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
        let used = store.used.swap(false, Ordering::Relaxed) || store.committer.waiting() > 0;
        if used && let Err(error) = sweep(&store).await {
            tracing::debug!(%error, "housekeeping failed; the next round will do it");
        }
        behind = (used || behind) && tell_who_holds_up(&store).await;
    }
}

/// Says whether the feed is behind, so that somebody goes on looking though nobody commits any more.
async fn tell_who_holds_up(store: &Shared) -> bool {
    let Ok(held_up) = held_up::look(&store.housekeeping, &store.committer).await else { return false };
    if let Some(commits) = held_up.commits.filter(|commits| commits.waiting_for >= LONG) {
        tracing::warn!(?commits, "commits are held up by a database session");
    }
    if let Some(feed) = held_up.feed.as_ref().filter(|feed| feed.standing_for >= LONG) {
        tracing::warn!(?feed, "the feed is held up by a database session");
    }
    held_up.feed.is_some()
}

async fn sweep(store: &Shared) -> Result<()> {
    let link = &store.housekeeping;
    store.time.tick(link).await?;
    link.read(&EXPIRED, &[&AT_ONCE]).await?;
    let memory = limits::COMMIT_MEMORY.as_micros() as i64;
    link.read(&FORGOTTEN, &[&AT_ONCE, &memory]).await.map(|_| ())
}
