//! Reactions with more targets than fit in a page.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::{ItemFilter, ItemQuery, StoreExt, StoredEvent};
use tidelock::{CloseError, discard};
use tidelock_test_stage::{Running, TestStore, brisk, many_items, on_every_store};

use crate::account::{Account, paid_into};
use crate::stage::until_blocked;

on_every_store!(no_event_goes_that_one_target_among_many_has_left_to_do);

/// A reaction that is blocked at an account, and has more targets than fit in a page.
async fn blocked_among_many(tidelock: &Tidelock) {
    let poison = on_any().in_streams("account-").retry(Retry::never());
    let running = Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "mail",
        poison,
        |_: StoredEvent, _| async { Err(HandlerError::again("no stamps")) },
    ));
    until_blocked(tidelock, "mail", "account-7").await;
    running.stop().await;
    let mut blocked = tidelock.store().rows(ItemQuery::new(ItemFilter::default().blocked(true)));
    let queue = blocked.next().await.unwrap().unwrap().item.queue;
    many_items(&**tidelock.store(), &queue, "account-0").await;
}

/// Schedule 100. CLOSE-2.
async fn no_event_goes_that_one_target_among_many_has_left_to_do(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 3).await;
    blocked_among_many(&tidelock).await;
    let books = || account.archive_to(discard).within(Duration::ZERO);
    for refused in [
        books().close().await.map(drop),
        books().restart().await.map(drop),
        books().keep_last(1).await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(&refused, CloseError::Unfinished { unfinished, .. } if unfinished.is_blocked()),
            "{refused}"
        );
    }
    let left = stage.tidelock().await.aggregate::<Account>("7").history().await.unwrap();
    assert_eq!(left.len(), 3, "every event is there");
}
