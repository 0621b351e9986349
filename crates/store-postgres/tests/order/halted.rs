//! A process that is stopped in the middle of a commit, or whose machine is gone: its connection
//! stays open.

use std::time::Duration;

use tidelock_store::{CommitId, Position, Store};
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, append, committed, feed_after, said};

/// Schedule 3: what it holds is not held for longer than a server is waited for.
#[tokio::test]
async fn whoever_halts_in_the_middle_of_a_commit_holds_nobody_up_for_ever() {
    let ground = Ground::shared();
    let (proxy, holder, looker) =
        (Proxy::to(ground.port()).unwrap(), ground.connect().await, ground.connect().await);
    let other = ground.open().await;
    committed(&other, append("a", "before")).await;
    let halted = ground.clone().through(proxy.port());
    let halted = halted.open_with(|options| options.connect_timeout = Duration::from_secs(2)).await;
    // It waits for the row; and when it has got it, it does not hear of that.
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

/// What is done between one's own statements is one's own affair, and the server's.
#[tokio::test]
async fn a_transaction_of_ones_own_may_pause_for_as_long_as_the_server_lets_it() {
    let ground = Ground::shared();
    let (store, plain) = (ground.open().await, ground.connect().await);
    let own = store.begin().await.unwrap();
    let limit = "SELECT current_setting('idle_in_transaction_session_timeout')";
    let rows = own.query(limit, &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, String>(0), plain.one::<String>(limit).await);
}
