//! The session that listens and tells is there, and does not answer.

use std::process::Command;
use std::time::Duration;

use tidelock_store::{Store, Topic};
use tidelock_store_postgres::Notify;
use tidelock_test_postgres::Server;

use crate::ground::{Ground, Plain, append, committed, queue, soon, wake};

/// A process of the server that is stopped, until this is dropped.
struct Stopped(i32);

impl Stopped {
    /// Stops the one session that listens.
    async fn ear(plain: &Plain) -> Self {
        let listens =
            "SELECT pid FROM pg_stat_activity WHERE application_name = '@' AND query LIKE 'LISTEN %'";
        let stopped = Self(plain.one(listens).await);
        signal("-STOP", stopped.0);
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(which: &str, process: i32) {
    let sent = Command::new("kill").args([which, &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Schedule 14: no commit waits for a notification, and no waiter for the session that should tell it.
#[tokio::test]
async fn a_session_that_does_not_answer_holds_up_neither_commits_nor_polls() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let store = ground.open_with(|options| options.poll_interval = Duration::from_millis(50)).await;
    let other = ground.open_with(|options| options.notify = Notify::Never).await;
    let stopped = Stopped::ear(&ground.connect().await).await;
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
