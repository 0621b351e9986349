//! Crashes: a process, or the server, killed between the user's rows and the commit, or during the
//! commit.

use tidelock_store::{CommitId, RetryAdvice};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Server;

use crate::ground::{Ground, accepted, append, soon};
use crate::worker::{Part, Worker, order, say};
use crate::{Shop, sell, trials};

trials!(
    a_process_killed_before_its_commit_leaves_nothing,
    a_process_killed_during_its_commit_leaves_all_or_nothing,
    a_server_killed_before_the_commit_has_nothing,
    a_server_killed_during_the_commit_has_all_or_nothing,
);

/// Sells, reports it, and commits when it is told to.
pub(crate) async fn clerk(part: &Part) {
    let store = PostgresStore::open(part.argument(0)).await.unwrap();
    let own = sell(&store, part.argument(1)).await;
    say("sold");
    order();
    accepted(own.commit(append("sales", "tea")).await.unwrap());
    say("committed");
}

fn start_clerk(shop: &Shop) -> Worker {
    let clerk = Worker::start("clerk", &[&shop.url(), &shop.ground.schema.as_str()]);
    clerk.hear("sold");
    clerk
}

async fn a_process_killed_before_its_commit_leaves_nothing() {
    let shop = Shop::new().await;
    start_clerk(&shop).kill();
    shop.plain.until_none_is_open().await;
    assert_eq!(shop.found().await, (0, 0));

    let mut clerk = start_clerk(&shop);
    clerk.tell("commit");
    clerk.hear("committed");
    clerk.finish();
    assert_eq!(shop.found().await, (1, 1));
}

/// Whether the server still receives the request depends on the network.
async fn a_process_killed_during_its_commit_leaves_all_or_nothing() {
    let shop = Shop::new().await;
    let holder = shop.ground.block_appends().await;
    let mut clerk = start_clerk(&shop);
    clerk.tell("commit");
    shop.plain.until_blocked(1).await;
    clerk.kill();
    assert_eq!(shop.found().await, (0, 0));
    holder.run("ROLLBACK").await;
    shop.plain.until_none_is_open().await;
    let (sales, events) = shop.found().await;
    assert_eq!(sales, events);
}

/// COMMIT-6: nothing can have happened, and the error says so.
async fn a_server_killed_before_the_commit_has_nothing() {
    let server = Server::start().unwrap();
    let mut shop = Shop::on(Ground::on(&server.url())).await;
    let own = shop.sell().await;
    server.kill().unwrap();
    let lost = own.commit(append("sales", "tea")).await.unwrap_err();
    assert_eq!(lost.advice(), RetryAdvice::Later, "{lost}");
    server.start_again().unwrap();
    shop.plain = shop.ground.connect().await;
    assert_eq!(shop.found().await, (0, 0));
    accepted(shop.sell_and(append("sales", "tea")).await.unwrap());
    assert_eq!(shop.found().await, (1, 1));
}

/// Schedule 10: the outcome is unknown, and the same commit with the same statements resolves it.
async fn a_server_killed_during_the_commit_has_all_or_nothing() {
    let server = Server::start().unwrap();
    let mut shop = Shop::on(Ground::on(&server.url())).await;
    let _holder = shop.ground.block_appends().await;
    let sale = append("sales", "tea").with_id(CommitId::fresh());
    let (lost, ()) = tokio::join!(shop.sell_and(sale.clone()), async {
        shop.plain.until_blocked(1).await;
        server.kill().unwrap();
    });
    let lost = lost.unwrap_err();
    assert_eq!(lost.advice(), RetryAdvice::Unknown, "{lost}");
    server.start_again().unwrap();
    shop.plain = shop.ground.connect().await;
    let (sales, events) = shop.found().await;
    assert_eq!(sales, events);
    accepted(soon("the same again", shop.sell_and(sale)).await.unwrap());
    assert_eq!(shop.found().await, (1, 1));
}
