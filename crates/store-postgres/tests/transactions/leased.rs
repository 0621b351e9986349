//! Exactly-once steps: a step whose effect is a user's row, whenever its worker is killed.

use std::time::{Duration, Instant};

use tidelock_store::{Commit, ExpectedRevision, Lease, RecordKey, StoreExt};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, PATIENCE, accepted, append, committed, item, lease_for, wake};
use crate::worker::{Part, Worker, order, say};
use crate::{Shop, sell, trials};

trials!(
    an_effect_is_there_once_when_its_worker_is_killed_before_the_commit,
    an_effect_is_there_once_when_its_worker_is_killed_during_the_commit,
    an_effect_is_there_once_when_its_worker_dies_without_an_answer,
    an_effect_is_there_once_when_its_worker_is_killed_after_the_commit,
    an_effect_apart_from_its_ack_is_there_twice_and_that_shows,
);

/// Long enough to work in, short enough to wait for.
const LEASE: Duration = Duration::from_millis(300);

/// Leases the step, does it when it is told to, and reports the outcome.
pub(crate) async fn worker(part: &Part) {
    let store = PostgresStore::open(part.argument(0)).await.unwrap();
    let (schema, lease) = (part.argument(1), lease_when_free(&store).await);
    let own = sell(&store, schema).await;
    if part.argument(2) == "apart" {
        // The mistake: the effect is committed by itself, and the ack would come later.
        let nothing = RecordKey::new("nothing").unwrap();
        let alone = Commit::new().guard_record(&nothing, ExpectedRevision::Absent);
        accepted(own.commit(alone).await.unwrap());
        say("sold");
        order();
        return;
    }
    say("sold");
    order();
    say(if own.commit(done(&lease)).await.is_ok() { "done" } else { "unknown" });
    order();
}

/// The event about the effect, and the end of the lease.
fn done(lease: &Lease) -> Commit {
    append("sales", "tea").settle(lease.ack())
}

async fn lease_when_free(store: &PostgresStore) -> Lease {
    let begun = Instant::now();
    loop {
        if let Some(lease) = lease_for(store, "worker", 1, LEASE).await.pop() {
            return lease;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never free");
    }
}

/// A shop in which a step is due.
async fn due(ground: Ground) -> Shop {
    let shop = Shop::on(ground).await;
    committed(&shop.store, wake("step")).await;
    shop
}

/// A worker that has the lease, and the effect in an open transaction; or, `apart`, in a separate
/// one.
fn begin(shop: &Shop, how: &str) -> Worker {
    let worker = Worker::start("worker", &[&shop.url(), &shop.ground.schema.as_str(), &how]);
    worker.hear("sold");
    worker
}

/// Another worker does the step, if it is not done yet; returns whether it was due.
async fn finish(shop: &Shop) -> bool {
    let found = shop.store.item(&item("step")).await.unwrap().expect("there is a step");
    if found.ready_at().is_none() {
        return false;
    }
    let lease = lease_when_free(&shop.store).await;
    assert_eq!((lease.attempts, lease.expiries), (2, 1), "the first attempt is counted as expired");
    accepted(shop.sell_and(done(&lease)).await.unwrap());
    true
}

/// Schedule 27: before.
async fn an_effect_is_there_once_when_its_worker_is_killed_before_the_commit() {
    let shop = due(Ground::shared()).await;
    begin(&shop, "together").kill();
    assert!(finish(&shop).await);
    assert_eq!(shop.found().await, (1, 1));
}

/// Schedule 27: during. The next worker finds it done, or not begun.
async fn an_effect_is_there_once_when_its_worker_is_killed_during_the_commit() {
    let shop = due(Ground::shared()).await;
    let mut worker = begin(&shop, "together");
    let holder = shop.ground.block_appends().await;
    worker.tell("commit");
    shop.plain.until_blocked(1).await;
    worker.kill();
    holder.run("ROLLBACK").await;
    shop.plain.until_none_is_open().await;
    finish(&shop).await;
    assert_eq!(shop.found().await, (1, 1));
}

/// Schedule 27: the server has committed, and the answer was lost.
async fn an_effect_is_there_once_when_its_worker_dies_without_an_answer() {
    let ground = Ground::shared();
    let proxy = Proxy::to(ground.port()).unwrap();
    let shop = due(ground.through(proxy.port())).await;
    let mut worker = begin(&shop, "together");
    proxy.cut_after_request(b"COMMIT\0");
    worker.tell("commit");
    worker.hear("unknown");
    worker.kill();
    shop.plain.until_none_is_open().await;
    assert!(!finish(&shop).await);
    assert_eq!(shop.found().await, (1, 1));
}

/// Schedule 27: after.
async fn an_effect_is_there_once_when_its_worker_is_killed_after_the_commit() {
    let shop = due(Ground::shared()).await;
    let mut worker = begin(&shop, "together");
    worker.tell("commit");
    worker.hear("done");
    worker.kill();
    assert!(!finish(&shop).await);
    assert_eq!(shop.found().await, (1, 1));
}

/// Schedule 27, control: in two transactions the effect is there twice.
async fn an_effect_apart_from_its_ack_is_there_twice_and_that_shows() {
    let shop = due(Ground::shared()).await;
    begin(&shop, "apart").kill();
    assert!(finish(&shop).await);
    assert_eq!(shop.found().await, (2, 1));
}
