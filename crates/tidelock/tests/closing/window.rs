//! Streams that lose their oldest events and stay open.

use tidelock::events::LoadError;
use tidelock::store::{StoreExt, StreamQuery, StreamState, Version};

use crate::account::{Account, Shelf, paid_into, pay};
use tidelock_test_stage::{TestStore, on_every_store};

on_every_store!(
    a_window_leaves_the_newest_events_and_the_state,
    a_stream_is_open_while_its_window_moves
);

/// CLOSE-6.
async fn a_window_leaves_the_newest_events_and_the_state(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 10).await;
    let cleared = account.archive_to(shelf.archive()).keep_last(3).await.unwrap();
    assert_eq!((cleared.through.get(), cleared.archived), (7, 7));
    assert_eq!(shelf.versions(), (1..=7).collect::<Vec<_>>());

    let other = stage.tidelock().await;
    let account = other.aggregate::<Account>("7");
    assert_eq!(account.load().await.unwrap().balance, 10);
    assert_eq!(account.history().await.unwrap().len(), 3);
    account.execute(pay(5)).await.unwrap();
    assert_eq!(account.load().await.unwrap().balance, 15);
    let gone = account.load_at_version(Version::new(2).unwrap()).await.unwrap_err();
    assert!(matches!(gone, LoadError::Trimmed { .. }), "{gone}");

    let cleared = account.archive_to(shelf.archive()).keep_last(3).await.unwrap();
    assert_eq!((cleared.through.get(), cleared.archived), (8, 1));
    assert_eq!(stage.tidelock().await.aggregate::<Account>("7").load().await.unwrap().balance, 15);
}

/// CLOSE-6. The archive function itself appends: a closed stream would refuse it.
async fn a_stream_is_open_while_its_window_moves(stage: TestStore) {
    let (tidelock, other) = (stage.tidelock().await, stage.tidelock().await);
    let account = paid_into(&tidelock, 10).await;
    let paying = move |_: Vec<tidelock::store::StoredEvent>| {
        let other = other.clone();
        async move { other.aggregate::<Account>("7").execute(pay(1)).await.map(drop) }
    };
    account.archive_to(paying).keep_last(2).await.unwrap();
    let fresh = stage.tidelock().await;
    let account = fresh.aggregate::<Account>("7");
    assert_eq!(account.load().await.unwrap().balance, 11);
    let page =
        fresh.store().full_page(StreamQuery::forward(account.stream().unwrap())).await.unwrap();
    assert_eq!(page.state, StreamState::Open(Version::new(11).unwrap()));
    assert_eq!(page.first.map(Version::get), Some(9));
}
