//! Concurrent claimants of one key.

use std::time::Duration;

use serde_json::Value;
use tidelock::Timestamp;
use tidelock::claims::ClaimGuard;
use tidelock::prelude::*;
use tidelock::store::{Fence, RecordKey, StoreExt};
use tidelock_test_stage::{TestStore, on_every_store, until};

/// Expires soon.
const LEASE: Duration = Duration::from_millis(20);

/// Schedule 96. CLAIM-3: never two winners.
async fn of_five_contenders_for_an_expired_lease_one_wins_three_hundred_times(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let mut last: Option<(Fence, Timestamp)> = None;
    let mut round = 0;
    while round < 300 {
        let contenders = (0..5).map(|_| contender(tidelock.clone()));
        let winners = futures_util::future::join_all(contenders).await.into_iter().flatten();
        let mut winners: Vec<_> = winners.map(|won| (won.fence(), won.since())).collect();
        winners.sort();
        assert!(winners.len() == 1 || !stage.is_simulated(), "round {round}: {winners:?}");
        // In real time a last renewal of the previous holder can come so late that no claimant
        // wins, and on a slow machine the winner's lease can expire within the round. Only then is
        // there another round.
        for (fence, since) in winners {
            let alone = last.is_none_or(|last| fence > last.0 && since >= last.1.plus(LEASE));
            assert!(alone, "round {round}: fence {fence} since {since} after {last:?}");
            last = Some((fence, since));
            round += 1;
        }
        // Dropped, not completed: its lease has to expire.
        let lease = RecordKey::new("~claim/idempotency/leader/").unwrap();
        let over = async || tidelock.store().get_one(&lease).await.unwrap().live().is_none();
        until("the lease has run out", over).await;
    }
}

async fn contender(tidelock: Tidelock) -> Option<ClaimGuard<Value>> {
    tokio::task::yield_now().await;
    let claim = tidelock.claims().idempotency("leader").lease(LEASE);
    match claim.claim().await.unwrap() {
        IdempotencyClaim::Won(won) => Some(won),
        IdempotencyClaim::Held(_) => None,
        other => panic!("{other:?}"),
    }
}

on_every_store!(of_five_contenders_for_an_expired_lease_one_wins_three_hundred_times);
