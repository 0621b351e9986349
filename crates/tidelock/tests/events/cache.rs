//! The state cache saves reads, and is always validated.

use tidelock::prelude::*;

use crate::harness::{Ground, on_every_store};
use crate::meddler::Meddler;
use crate::shop::{Counter, Stock, receive, step};

on_every_store!(
    a_decision_on_a_remembered_state_reads_nothing,
    a_load_of_a_remembered_state_replays_nothing,
    a_conflict_costs_one_read_of_the_missed_events,
    a_loaded_state_does_not_change,
    two_handles_of_one_process_share_the_cache,
);

/// EVT-9.
async fn a_decision_on_a_remembered_state_reads_nothing(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    let counter = tidelock.aggregate::<Counter>("one");
    counter.execute(step).await.unwrap();
    let (reads, commits) = meddler.counts();
    for _ in 0..10 {
        counter.execute(step).await.unwrap();
    }
    assert_eq!(meddler.counts(), (reads, commits + 10));
}

/// EVT-9.
async fn a_load_of_a_remembered_state_replays_nothing(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    here.aggregate::<Counter>("one").execute(step).await.unwrap();
    for _ in 0..3 {
        there.aggregate::<Counter>("one").execute(step).await.unwrap();
    }
    // The store's state is loaded, not the cached one.
    let loaded = here.aggregate::<Counter>("one").load().await.unwrap();
    assert_eq!((loaded.steps, loaded.version.unwrap().get()), (4, 4));
    let meddler = Meddler::over(ground.store().await);
    let counting = Tidelock::over(meddler.clone());
    counting.aggregate::<Counter>("one").load().await.unwrap();
    let (reads, _) = meddler.counts();
    counting.aggregate::<Counter>("one").load().await.unwrap();
    assert_eq!(meddler.counts().0, reads + 1, "one look at whether there is more");
}

/// EVT-9.
async fn a_conflict_costs_one_read_of_the_missed_events(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let (here, there) = (Tidelock::over(meddler.clone()), ground.open().await);
    let counter = here.aggregate::<Counter>("one");
    counter.execute(step).await.unwrap();
    for _ in 0..5 {
        there.aggregate::<Counter>("one").execute(step).await.unwrap();
    }
    let (reads, commits) = meddler.counts();
    assert_eq!(counter.execute(step).await.unwrap().version.unwrap().get(), 7);
    let (read, committed) = meddler.counts();
    assert_eq!(committed, commits + 2);
    assert!(read == reads + 1 || ground.is_stingy(), "{read} reads, {reads} before");
}

/// EVT-9.
async fn a_loaded_state_does_not_change(ground: Ground) {
    let tidelock = ground.open().await;
    let tea = tidelock.aggregate::<Stock>("tea");
    tea.execute(receive(1)).await.unwrap();
    let before = tea.load().await.unwrap();
    tea.execute(receive(1)).await.unwrap();
    let after = tea.load().await.unwrap();
    assert_eq!((before.left, before.version.unwrap().get()), (1, 1));
    assert_eq!((after.left, after.version.unwrap().get()), (2, 2));
}

/// EVT-9.
async fn two_handles_of_one_process_share_the_cache(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    tidelock.aggregate::<Counter>("one").execute(step).await.unwrap();
    let (reads, _) = meddler.counts();
    tidelock.clone().aggregate::<Counter>("one").execute(step).await.unwrap();
    assert_eq!(meddler.counts().0, reads);
}
