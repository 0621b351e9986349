//! A caller that dies at every call of a closing, and one that finishes it.

use std::time::Duration;

use tidelock::closing::{CloseError, CloseSummary};
use tidelock::prelude::*;
use tidelock::store::{StoreExt, StreamQuery, StreamState};

use crate::account::{Account, Shelf, paid_into, pay};
use tidelock_test_stage::{DyingStore, TestStore, in_memory, on_every_store, until};

on_every_store!(books_are_free_again_after_the_lease_that_their_dead_closer_asked_for);

/// More than any closing here needs.
const CALLS: i64 = 100;

/// The kinds of closing.
#[derive(Debug, Clone, Copy)]
enum Way {
    Close,
    Restart,
    Window,
}

async fn close(tidelock: &Tidelock, shelf: &Shelf, way: Way) -> Result<CloseSummary, CloseError> {
    let books = tidelock.aggregate::<Account>("7").archive_to(shelf.archive());
    match way {
        Way::Close => books.close().await,
        Way::Restart => books.restart().await,
        Way::Window => books.keep_last(2).await,
    }
}

/// Lets one caller die at its nth call, and another finish; returns whether the first needed as
/// many calls.
async fn dies_at(stage: &TestStore, way: Way, calls: i64, last_words: bool) -> bool {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    paid_into(&tidelock, 5).await;
    let mortal = DyingStore::over(tidelock.store().clone(), calls, last_words);
    let died = close(&Tidelock::over(mortal.clone()), &shelf, way).await;
    if !mortal.is_dead() {
        died.unwrap();
        return false;
    }
    // The dead caller's lease has to expire first, if it had one.
    while let Err(error) = close(&tidelock, &shelf, way).await {
        match error {
            CloseError::Busy { .. } => tokio::time::advance(Duration::from_secs(1)).await,
            // The dead caller had finished with its last call.
            CloseError::NothingToClear { .. } if !matches!(way, Way::Close) => break,
            other => panic!("{way:?}, {calls} calls, {last_words}: {other}"),
        }
    }
    check(stage, &shelf, way).await;
    true
}

async fn check(stage: &TestStore, shelf: &Shelf, way: Way) {
    let fresh = stage.tidelock().await;
    let account = fresh.aggregate::<Account>("7");
    let page =
        fresh.store().full_page(StreamQuery::forward(account.stream().unwrap())).await.unwrap();
    let left: Vec<u64> = page.events.iter().map(|event| event.version.get()).collect();
    match way {
        Way::Close => {
            assert_eq!((left, shelf.distinct()), (vec![], vec![1, 2, 3, 4, 5]));
            assert!(matches!(page.state, StreamState::Closed(_)));
        }
        Way::Restart => assert_eq!((left, shelf.distinct()), (vec![], vec![1, 2, 3, 4, 5])),
        Way::Window => assert_eq!((left, shelf.distinct()), (vec![4, 5], vec![1, 2, 3])),
    }
    if !matches!(way, Way::Close) {
        account.execute(pay(1)).await.unwrap();
        assert_eq!(account.load().await.unwrap().balance, 6, "totals are unchanged");
    }
}

/// Schedule 32. CLOSE-4: whether the fatal call takes effect or not.
#[test]
fn a_closing_is_finished_after_a_crash_at_any_call() {
    for way in [Way::Close, Way::Restart, Way::Window] {
        for last_words in [false, true] {
            let mut deaths = 0;
            for calls in 0..CALLS {
                let (sender, died) = std::sync::mpsc::channel();
                in_memory(|stage| async move {
                    sender.send(dies_at(&stage, way, calls, last_words).await).unwrap();
                });
                if !died.recv().unwrap() {
                    break;
                }
                deaths += 1;
            }
            assert!(
                (8..CALLS).contains(&deaths),
                "{way:?} died {deaths} times, so the schedule was not what it says"
            );
        }
    }
}

/// CLOSE-4. The dead caller's lease counts, not the next caller's.
async fn books_are_free_again_after_the_lease_that_their_dead_closer_asked_for(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 5).await;
    let mortal = DyingStore::over(tidelock.store().clone(), 4, false);
    let doomed = Tidelock::over(mortal.clone()).aggregate::<Account>("7");
    let before = tidelock.store().now().await.unwrap();
    doomed.archive_to(shelf.archive()).lease(stage.lease()).close().await.unwrap_err();
    assert!(mortal.is_dead());
    let Err(CloseError::Busy { until: Some(moment), .. }) =
        account.archive_to(shelf.archive()).close().await
    else {
        panic!("the dead one had a lease");
    };
    let after = tidelock.store().now().await.unwrap();
    assert!((before.plus(stage.lease())..=after.plus(stage.lease())).contains(&moment), "{moment}");
    until("the books are free again", async || {
        match account.archive_to(shelf.archive()).close().await {
            Ok(_) => true,
            Err(CloseError::Busy { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    check(&stage, &shelf, Way::Close).await;
}
