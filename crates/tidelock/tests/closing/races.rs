//! Others append while the books are being closed.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock::{ExecuteError, discard};

use crate::account::{Account, Paid, Shelf, paid_into, pay};
use tidelock_test_stage::{Stage, on_every_store, until};

on_every_store!(
    what_was_acknowledged_is_in_the_archive_and_nothing_lands_behind_the_tombstone,
    a_decision_on_the_state_before_the_close_is_refused_after_it,
);

/// Schedule 30. CLOSE-1, CLOSE-3: whoever is quicker wins, and the loser knows.
async fn what_was_acknowledged_is_in_the_archive_and_nothing_lands_behind_the_tombstone(stage: Stage) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 1).await;
    let mut payers = Vec::new();
    for _ in 0..3 {
        let payer = stage.tidelock().await;
        payers.push(tokio::spawn(async move {
            let (account, mut acknowledged) = (payer.aggregate::<Account>("7"), 0);
            loop {
                match account.execute(pay(1)).await {
                    Ok(_) => acknowledged += 1,
                    Err(ExecuteError::GaveUp { .. }) => {}
                    Err(ExecuteError::Closed { .. }) => return acknowledged,
                    Err(other) => panic!("{other}"),
                }
                // Waits for nothing: simulated time passes only while everybody is idle, and others wait for it.
                tokio::time::sleep(Duration::from_micros(1)).await;
            }
        }));
    }
    let reached = async || account.load().await.unwrap().balance >= 10;
    until("there are some payments", reached).await;
    let closed = account.books(shelf.archive()).close().await.unwrap();
    let mut acknowledged = 1;
    for payer in payers {
        acknowledged += payer.await.unwrap();
    }
    assert_eq!(closed.through.get(), acknowledged);
    assert_eq!(shelf.versions(), (1..=acknowledged).collect::<Vec<_>>());
}

/// Schedule 84.
async fn a_decision_on_the_state_before_the_close_is_refused_after_it(stage: Stage) {
    let (tidelock, late) = (stage.tidelock().await, stage.tidelock().await);
    let account = paid_into(&tidelock, 2).await;
    let late = late.aggregate::<Account>("7");
    let loaded = late.load().await.unwrap();
    account.books(discard).close().await.unwrap();
    let refused = late.execute(pay(1)).await.unwrap_err();
    assert!(matches!(refused, ExecuteError::Closed { .. }), "{refused}");
    let pinned = late.at_version(loaded.version.unwrap()).execute(pay(1)).await.unwrap_err();
    assert!(matches!(pinned, ExecuteError::Closed { .. }), "{pinned}");
    let unseen = late.append(ExpectedVersion::Any, Paid { amount: 1 }).await.unwrap_err();
    assert!(matches!(unseen, ExecuteError::Closed { .. }), "{unseen}");
}
