//! Closing a stream.

use std::time::Duration;

use tidelock::ExecuteError;
use tidelock::closing::{CloseError, discard};
use tidelock::prelude::*;
use tidelock::store::{StoreExt, StreamName, StreamQuery, StreamState, Version};

use crate::account::{Account, Paid, Shelf, paid_into, pay};
use tidelock_test_stage::{TestStore, on_every_store};

on_every_store!(
    a_closed_stream_is_archived_empty_and_shut,
    closing_again_finds_that_all_is_done,
    a_restarted_stream_keeps_its_state_and_version,
    an_archive_that_fails_loses_nothing_and_is_not_asked_for_the_same_again,
    a_closing_is_not_finished_by_another_kind_of_closing,
    only_one_is_at_the_books_at_a_time,
    a_refused_close_has_a_reason,
);

async fn state_of(tidelock: &Tidelock) -> (StreamState, usize) {
    let stream = StreamName::new("account-7").unwrap();
    let page = tidelock.store().full_page(StreamQuery::forward(&stream)).await.unwrap();
    (page.state, page.events.len())
}

fn version(n: u64) -> Version {
    Version::new(n).unwrap()
}

/// CLOSE-1. CLOSE-3.
async fn a_closed_stream_is_archived_empty_and_shut(stage: TestStore) {
    let (tidelock, other, shelf) =
        (stage.tidelock().await, stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 5).await;
    let closed = account.archive_to(shelf.archive()).close().await.unwrap();
    assert_eq!((closed.through, closed.archived), (version(5), 5));
    assert_eq!(shelf.versions(), [1, 2, 3, 4, 5]);
    assert_eq!(state_of(&tidelock).await, (StreamState::Closed(version(5)), 0));
    for handle in [&tidelock, &other] {
        let refused = handle.aggregate::<Account>("7").append(paid(1)).await;
        assert!(matches!(refused, Err(ExecuteError::Closed { .. })), "{refused:?}");
    }
}

fn paid(amount: i64) -> Paid {
    Paid { amount }
}

/// CLOSE-4.
async fn closing_again_finds_that_all_is_done(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 2).await;
    account.archive_to(shelf.archive()).close().await.unwrap();
    let again = account.archive_to(shelf.archive()).close().await.unwrap();
    assert_eq!((again.through, again.archived), (version(2), 0));
    assert_eq!(shelf.versions(), [1, 2]);
}

/// CLOSE-5: for this process, with a cached state, and for another without.
async fn a_restarted_stream_keeps_its_state_and_version(stage: TestStore) {
    let (tidelock, other, shelf) =
        (stage.tidelock().await, stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 4).await;
    account.archive_to(shelf.archive()).restart().await.unwrap();
    assert_eq!(state_of(&tidelock).await, (StreamState::Open(version(4)), 0));
    for handle in [&tidelock, &other] {
        let account = handle.aggregate::<Account>("7");
        let before = account.load().await.unwrap();
        let done = account.execute(pay(10)).await.unwrap();
        let after = account.load().await.unwrap();
        assert_eq!(
            (after.balance, done.version),
            (before.balance + 10, before.version.map(|v| v.plus(1)))
        );
    }
    assert_eq!(other.aggregate::<Account>("7").load().await.unwrap().balance, 24);

    let next_year = account.archive_to(shelf.archive()).restart().await.unwrap();
    assert_eq!((next_year.through, next_year.archived), (version(6), 2));
    assert_eq!(shelf.versions(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(stage.tidelock().await.aggregate::<Account>("7").load().await.unwrap().balance, 24);
}

/// CLOSE-2.
async fn an_archive_that_fails_loses_nothing_and_is_not_asked_for_the_same_again(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = tidelock.aggregate::<Account>("7");
    let many = (0..1_000).map(|_| paid(1)).collect::<Vec<_>>();
    account.new_only().append(many).await.unwrap();
    account.execute(pay(1)).await.unwrap();

    let first_page_only = {
        let archive = shelf.archive();
        move |events: Vec<tidelock::store::StoredEvent>| {
            let fits = events[0].version == Version::FIRST;
            let taken = fits.then(|| archive(events));
            async move {
                match taken {
                    Some(taken) => taken.await.map_err(|never| match never {}),
                    None => Err("the shelf is full"),
                }
            }
        }
    };
    let refused = account.archive_to(first_page_only).close().await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("did not take versions 1001 to 1001: the shelf is full"), "{told}");
    assert_eq!(state_of(&tidelock).await.0, StreamState::Closed(version(1_001)));
    assert_eq!(state_of(&tidelock).await.1, 1_000, "a whole page is there");

    let closed = account.archive_to(shelf.archive()).close().await.unwrap();
    assert_eq!(closed.archived, 1, "the first page was taken before");
    assert_eq!(shelf.versions(), (1..=1_001).collect::<Vec<_>>());
}

/// CLOSE-4.
async fn a_closing_is_not_finished_by_another_kind_of_closing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 2).await;
    let full = |_| std::future::ready(Err::<(), _>("the shelf is full"));
    account.archive_to(full).restart().await.unwrap_err();
    let refused = account.archive_to(discard).close().await.unwrap_err();
    assert!(refused.to_string().contains("restart() was begun and is not done"), "{refused}");
    account.archive_to(discard).restart().await.unwrap();
    account.execute(pay(1)).await.unwrap();
}

/// CLOSE-4.
async fn only_one_is_at_the_books_at_a_time(stage: TestStore) {
    let (tidelock, other) = (stage.tidelock().await, stage.tidelock().await);
    let account = paid_into(&tidelock, 2).await;
    let meanwhile = move |_: Vec<tidelock::store::StoredEvent>| {
        let other = other.clone();
        async move {
            let refused = other.aggregate::<Account>("7").archive_to(discard).close().await;
            match refused {
                Err(CloseError::Busy { until: Some(_), .. }) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }
    };
    account.archive_to(meanwhile).close().await.unwrap();
}

async fn a_refused_close_has_a_reason(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let told = tidelock
        .aggregate::<Account>("7")
        .archive_to(discard)
        .close()
        .await
        .unwrap_err()
        .to_string();
    assert!(told.contains(r#"stream "account-7": it does not exist"#), "{told}");

    #[derive(Debug, Default, Clone)]
    struct Forgetful;
    impl Aggregate for Forgetful {
        const KIND: &'static str = "account";
        type Event = Paid;
        fn apply(&mut self, _: &Paid) {}
    }
    paid_into(&tidelock, 1).await;
    let forgetful = tidelock.aggregate::<Forgetful>("7");
    let told = forgetful.archive_to(discard).restart().await.unwrap_err().to_string();
    assert!(told.contains("needs a snapshot"), "{told}");
    assert_eq!(
        state_of(&tidelock).await,
        (StreamState::Open(version(1)), 1),
        "nothing was touched"
    );
    let books = || tidelock.aggregate::<Account>("7").archive_to(discard);
    let told = books().lease(Duration::ZERO).close().await.unwrap_err().to_string();
    assert!(told.contains("a lease of no time"), "{told}");
    assert_eq!(
        state_of(&tidelock).await,
        (StreamState::Open(version(1)), 1),
        "nothing was touched"
    );
    let told = books().within(Duration::ZERO).keep_last(5).await.unwrap_err();
    assert!(told.to_string().contains("nothing to clear away at version 1"), "{told}");
}
