//! A process that is stopped during a commit, or whose machine is down: its connection stays open.

use std::time::Duration;

use tidelock_store::{CommitId, Position, Store};
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, append, committed, feed_after, said};

/// Schedule 3: its locks are not held for longer than the timeout.
#[tokio::test]
async fn a_process_stopped_during_a_commit_does_not_block_others_indefinitely() {
    let ground = Ground::shared();
    let (proxy, holder, looker) =
        (Proxy::to(ground.port()).unwrap(), ground.connect().await, ground.connect().await);
    let other = ground.open().await;
    committed(&other, append("a", "before")).await;
    let halted = ground.clone().through(proxy.port());
    let halted = halted.open_with(|options| options.connect_timeout = Duration::from_secs(2)).await;
    // It waits for the row; and when it gets it, it does not learn of that.
    holder.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'a' FOR UPDATE").await;
    let commit = append("a", "never").with_id(CommitId::fresh());
    let committing = tokio::spawn(async move { halted.commit(commit).await });
    looker.until_blocked(1).await;
    proxy.stall();
    holder.run("COMMIT").await;
    looker
        .until(
            "it holds the row",
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@' AND state = 'idle in transaction')",
        )
        .await;

    committed(&other, append("a", "after")).await;
    let events = feed_after(&other, Position::START).await;
    assert_eq!(said(&events), ["before", "after"]);
    committing.abort();
}

/// Pauses between user statements are limited only by the server.
#[tokio::test]
async fn a_user_transaction_may_pause_for_as_long_as_the_server_allows() {
    let ground = Ground::shared();
    let (store, plain) = (ground.open().await, ground.connect().await);
    let own = store.begin().await.unwrap();
    let limit = "SELECT current_setting('idle_in_transaction_session_timeout')";
    let rows = own.query(limit, &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, String>(0), plain.one::<String>(limit).await);
}
