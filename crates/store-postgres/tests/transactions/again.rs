//! Replay: a commit that is repeated after a lost answer does not write the user's rows a second
//! time.

use tidelock_store::{
    Bounds, Commit, CommitId, ExpectedVersion, RecordKey, RecordWrite, RetryAdvice, StoreErrorKind,
};
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, accepted, append, committed, event, item, lease, stream, wake};
use crate::{Shop, trials};

trials!(
    the_same_commit_under_its_id_brings_its_rows_once,
    another_commit_under_that_id_brings_nothing,
    the_same_events_bring_their_rows_once,
    the_same_settlement_brings_its_rows_once,
    a_lost_reply_does_not_double_the_rows,
);

/// COMMIT-4, with user SQL.
async fn the_same_commit_under_its_id_brings_its_rows_once() {
    let shop = Shop::new().await;
    let sum = RecordKey::new("sum").unwrap();
    let add =
        Commit::new().with_id(CommitId::fresh()).write(RecordWrite::add(&sum, 1, Bounds::NONE));
    let first = accepted(shop.sell_and(add.clone()).await.unwrap());
    assert_eq!(accepted(shop.sell_and(add.clone()).await.unwrap()), first);
    assert_eq!(committed(&shop.store, add).await, first);
    assert_eq!(shop.found().await, (1, 0));
}

async fn another_commit_under_that_id_brings_nothing() {
    let shop = Shop::new().await;
    let id = CommitId::fresh();
    accepted(shop.sell_and(append("sales", "tea").with_id(id)).await.unwrap());
    let refused = shop.sell_and(append("sales", "coffee").with_id(id)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::IdempotencyMismatch, "{refused}");
    assert_eq!(shop.found().await, (1, 1));
}

/// LOG-5, with user SQL.
async fn the_same_events_bring_their_rows_once() {
    let shop = Shop::new().await;
    let sale = Commit::new().append(&stream("sales"), ExpectedVersion::NoStream, [event("tea")]);
    let first = accepted(shop.sell_and(sale.clone()).await.unwrap());
    let again = accepted(shop.sell_and(sale).await.unwrap());
    assert_eq!(again.appends[0].positions, first.appends[0].positions);
    assert_eq!(shop.found().await, (1, 1));
}

/// LEASE-9, with user SQL; also beside idempotent parts.
async fn the_same_settlement_brings_its_rows_once() {
    for beside in [Commit::new(), wake("next")] {
        let shop = Shop::new().await;
        committed(&shop.store, wake("a")).await;
        let held = lease(&shop.store, "worker", 1).await.remove(0);
        for _ in 0..2 {
            accepted(shop.sell_and(beside.clone().settle(held.ack())).await.unwrap());
        }
        assert_eq!(shop.found().await, (1, 0));
        assert_eq!(held.item, item("a"));
    }
}

/// Schedules 6 and 12: the outcome is unknown, everything is sent again, and the answer is the
/// first attempt's.
async fn a_lost_reply_does_not_double_the_rows() {
    let ground = Ground::shared();
    let proxy = Proxy::to(ground.port()).unwrap();
    let shop = Shop::on(ground.through(proxy.port())).await;
    let sale = append("sales", "tea").with_id(CommitId::fresh());
    let own = shop.sell().await;
    proxy.cut_after_request(b"COMMIT\0");
    let lost = own.commit(sale.clone()).await.unwrap_err();
    assert_eq!(lost.advice(), RetryAdvice::Unknown, "{lost}");
    shop.plain.until("the first one has landed", "SELECT count(*) = 1 FROM tidelock.events").await;
    let done = accepted(shop.sell_and(sale.clone()).await.unwrap());
    assert_eq!(shop.found().await, (1, 1));
    assert_eq!(committed(&shop.store, sale).await, done);
}
