//! The session that listens and notifies is there, and does not answer.

use std::time::Duration;

use tidelock_store::{Store, Topic};
use tidelock_store_postgres::Notify;
use tidelock_test_postgres::{Proxy, Server};

use crate::ground::{GLANCE, Ground, NEVER, append, committed, queue, soon, wake};
use crate::stopped::Stopped;

/// The last statement of the one session that listens.
const LISTEN: &str = "LISTEN %";

/// Schedule 14: no commit waits for a notification, and no waiter for the session that should
/// deliver it.
#[tokio::test]
async fn a_session_that_does_not_answer_holds_up_neither_commits_nor_polls() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let store = ground.open_with(|options| options.poll_interval = Duration::from_millis(50)).await;
    let other = ground.open_with(|options| options.notify = Notify::Never).await;
    let stopped = Stopped::session(&ground.connect().await, LISTEN).await;
    let mut log = store.signal(Topic::Log);
    for _ in 0..5 {
        committed(&store, append("a", "a")).await;
        soon("one's own commit's signal", log.wait()).await;
    }
    let mut items = store.signal(Topic::Queue(queue()));
    committed(&other, wake("letter")).await;
    for _ in 0..3 {
        soon("a poll", items.wait()).await;
    }
    drop(stopped);
}

/// Schedule 14: another one replaces it, and works. No waiter polls.
#[tokio::test]
async fn a_session_that_does_not_answer_is_replaced() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let plain = ground.connect().await;
    let store = ground
        .open_with(|options| {
            options.poll_interval = NEVER;
            options.connect_timeout = Duration::from_secs(2);
        })
        .await;
    let stopped = Stopped::session(&plain, LISTEN).await;
    committed(&store, append("a", "unheard")).await;
    let two = "SELECT count(*) = 2 FROM pg_stat_activity WHERE application_name = '@' AND query LIKE 'LISTEN %'";
    plain.until("another session listens", two).await;
    let other = ground.open().await;
    let mut items = store.signal(Topic::Queue(queue()));
    committed(&other, wake("letter")).await;
    soon("the signal of a notification", items.wait()).await;
    drop(stopped);
}

/// No task waits for the answer any more, so the connection is closed too.
#[tokio::test]
async fn a_session_that_does_not_answer_is_let_go_of_when_the_store_is_closed() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let (plain, proxy) = (ground.connect().await, Proxy::to(ground.port()).unwrap());
    let store = ground.through(proxy.port()).open().await;
    let stopped = Stopped::session(&plain, LISTEN).await;
    let mut log = store.signal(Topic::Log);
    for _ in 0..5 {
        committed(&store, append("a", "a")).await;
        soon("one's own commit's signal", log.wait()).await;
    }
    store.close().await.unwrap();
    // The server's end of it is stopped, and stays.
    soon("the end of all tasks", async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 1 {
            tokio::time::sleep(GLANCE).await;
        }
    })
    .await;
    drop((store, stopped));
}
