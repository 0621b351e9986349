//! Renewals while everything else is blocked.

use std::time::Duration;

use tidelock_store::{Adjustment, Commit, ItemFilter, Lease, Renewal, Store, When};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, append, committed, lease, lease_for, soon, wake};

const TRANSACTIONS: usize = 2;
const HOUR: Duration = Duration::from_secs(3_600);

async fn renew(store: &PostgresStore, leases: &[&Lease]) -> Vec<Renewal> {
    let tokens: Vec<_> = leases.iter().map(|lease| lease.token()).collect();
    soon("a renewal", store.renew(&tokens, HOUR)).await.unwrap()
}

fn all_stand(renewals: &[Renewal]) -> bool {
    renewals.iter().all(|renewal| matches!(renewal, Renewal::Renewed(_)))
}

/// Schedule 34. LEASE-4: handlers hold every connection of the pool, and every commit waits for a
/// session that has locked the events.
#[tokio::test]
async fn renewals_go_through_while_every_other_connection_is_held() {
    let ground = Ground::shared();
    let store = ground.open_with(|options| options.transactions = TRANSACTIONS).await;
    committed(&store, wake("letter")).await;
    let held = lease(&store, "worker", 1).await.remove(0);
    let mut handlers = Vec::new();
    for _ in 0..TRANSACTIONS {
        handlers.push(store.begin().await.unwrap());
    }
    let (holder, looker) = (ground.connect().await, ground.connect().await);
    holder.run("BEGIN; LOCK TABLE tidelock.events IN SHARE MODE").await;
    let commit = tokio::spawn({
        let store = store.clone();
        async move { committed(&store, append("a", "held up")).await }
    });
    looker.until_blocked(1).await;
    assert!(all_stand(&renew(&store, &[&held]).await));

    holder.run("COMMIT").await;
    soon("the commit", commit).await.unwrap();
    drop(handlers);
}

/// Schedule 34: background maintenance does not block renewals either. It saves the clock, in a row
/// that another session may have locked.
#[tokio::test]
async fn housekeeping_that_is_held_up_holds_up_no_renewal() {
    let ground = Ground::shared();
    let store =
        ground.open_with(|options| options.sweep_interval = Duration::from_millis(20)).await;
    committed(&store, wake("letter")).await;
    let (holder, looker) = (ground.connect().await, ground.connect().await);
    holder.run("BEGIN; SELECT FROM tidelock.meta FOR UPDATE").await;
    let held = lease(&store, "worker", 1).await.remove(0);
    let since: String = looker.one("SELECT clock_timestamp()::text").await;
    let swept = format!(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@' AND
            (query LIKE '%SET clock%' AND wait_event_type = 'Lock'
             OR query LIKE 'DELETE FROM %commits%' AND query_start > '{since}'))"
    );
    looker.until("housekeeping waits, or is done", &swept).await;
    assert!(all_stand(&renew(&store, &[&held]).await));
    holder.run("COMMIT").await;
}

/// Schedule 34: one item's row is locked, by a commit of this same process that cannot continue.
/// Its other leases are renewed.
#[tokio::test]
async fn an_item_whose_row_is_locked_takes_no_other_lease_with_it() {
    let ground = Ground::shared();
    let (store, looker) = (ground.open().await, ground.connect().await);
    committed(&store, wake("busy")).await;
    committed(&store, wake("quiet")).await;
    let leases = lease(&store, "worker", 2).await;
    let (busy, quiet) = match &leases[..] {
        [a, b] if a.item.key.as_str() == "busy" => (a, b),
        [b, a] => (a, b),
        _ => panic!("{leases:?}"),
    };
    let holder = ground.connect().await;
    holder.run("BEGIN; LOCK TABLE tidelock.events IN SHARE MODE").await;
    let commit = tokio::spawn({
        let (store, fenced) = (store.clone(), append("a", "held up").fenced_by(busy.token()));
        async move { committed(&store, fenced).await }
    });
    looker.until_blocked(1).await;
    let renewing = tokio::spawn({
        let (store, tokens) = (store.clone(), [busy.token(), quiet.token()]);
        async move { store.renew(&tokens, HOUR).await.unwrap() }
    });
    let renewed = format!(
        "SELECT deadline > {} FROM tidelock.items WHERE key = 'quiet'",
        quiet.deadline.micros()
    );
    looker.until("the lease of the unlocked item is renewed", &renewed).await;
    assert!(all_stand(&renew(&store, &[quiet]).await), "it does not wait behind the other");

    holder.run("COMMIT").await;
    soon("the commit", commit).await.unwrap();
    assert!(all_stand(&soon("the renewals", renewing).await.unwrap()));
    committed(&store, Commit::new().settle(busy.ack()).settle(quiet.ack())).await;
}

/// Schedule 34: the row stays locked for longer than the leases last. The call keeps waiting for
/// it, and keeps renewing the others, because its caller can make no other call in the meantime.
#[tokio::test]
async fn an_item_whose_row_stays_locked_lets_no_other_lease_run_out() {
    let ground = Ground::shared();
    let (store, holder, looker) =
        (ground.open().await, ground.connect().await, ground.connect().await);
    committed(&store, wake("busy")).await;
    committed(&store, wake("quiet")).await;
    let short = Duration::from_millis(150);
    let tokens: Vec<_> =
        lease_for(&store, "worker", 2, short).await.iter().map(Lease::token).collect();
    holder.run("BEGIN; SELECT FROM tidelock.items WHERE key = 'busy' FOR UPDATE").await;
    let renewing = tokio::spawn(async move { store.renew(&tokens, short).await.unwrap() });
    let deadline = "SELECT deadline FROM tidelock.items WHERE key = 'quiet'";
    for _ in 0..4 {
        let before: i64 = looker.one(deadline).await;
        let sql = format!("SELECT ({deadline}) > {before}");
        looker.until("the other lease is renewed once more", &sql).await;
    }
    assert!(!renewing.is_finished());
    holder.run("COMMIT").await;
    assert!(all_stand(&soon("the renewals", renewing).await.unwrap()));
}

/// An operator's adjustment does not wait for the handlers that it is to repair.
#[tokio::test]
async fn adjustments_go_through_while_every_connection_for_transactions_is_held() {
    let ground = Ground::shared();
    let store = ground.open_with(|options| options.transactions = TRANSACTIONS).await;
    committed(&store, wake("letter")).await;
    let mut handlers = Vec::new();
    for _ in 0..TRANSACTIONS {
        handlers.push(store.begin().await.unwrap());
    }
    let adjusting =
        store.adjust(ItemFilter::queue("mail"), Adjustment::Defer { until: When::In(HOUR) });
    assert_eq!(soon("the adjustment", adjusting).await.unwrap().changed, 1);
    drop(handlers);
}
