//! Notifications between handles, with polls so rare that none is seen.

use std::future::poll_fn;

use tidelock_store::{RawJson, RecordKey, Store, StoreExt, Topic};
use tidelock_store_postgres::tokio_postgres::{self, AsyncMessage, NoTls};
use tokio::sync::{mpsc, watch};

use crate::ground::{Ground, NEVER, append, committed, queue, soon, wake};

/// A hint may be lost, but on a healthy server there is no reason for it.
#[tokio::test]
async fn a_commit_on_one_handle_wakes_the_waiters_of_another() {
    let ground = Ground::shared();
    let (one, other) = (ground.open_with(|o| o.poll_interval = NEVER).await, ground.open().await);
    let key = RecordKey::new("bell").unwrap();
    let topics = [Topic::Log, Topic::Record(key.clone()), Topic::Queue(queue())];
    let [mut log, mut record, mut items] = topics.map(|topic| one.signal(topic));
    for _ in 0..3 {
        committed(&other, append("a", "a")).await;
        soon("the log's signal", log.wait()).await;
        other
            .put(&key, tidelock_store::ExpectedRevision::Any, RawJson::new(&1).unwrap())
            .await
            .unwrap()
            .committed()
            .unwrap();
        soon("the record's signal", record.wait()).await;
        committed(&other, wake("letter")).await;
        soon("the queue's signal", items.wait()).await;
    }
}

/// A handle that notifies all the time still listens.
#[tokio::test]
async fn a_handle_that_writes_all_the_time_is_woken_too() {
    let ground = Ground::shared();
    let (busy, other) = (ground.open_with(|o| o.poll_interval = NEVER).await, ground.open().await);
    let mut items = busy.signal(Topic::Queue(queue()));
    let (written, mut seen) = watch::channel(0);
    let writing = async {
        for nth in 1.. {
            committed(&busy, append("busy", "a")).await;
            written.send_replace(nth);
        }
    };
    let woken = async {
        for _ in 0..20 {
            let already = *seen.borrow();
            seen.wait_for(|nth| *nth > already + 5).await.unwrap();
            committed(&other, wake("letter")).await;
            soon("the queue's signal", items.wait()).await;
        }
    };
    tokio::select! {
        () = writing => {}
        () = woken => {}
    }
}

/// A transaction that notifies takes a lock shared by the whole database, until it has committed.
/// So another session than the committing one notifies, on every commit path.
#[tokio::test]
async fn no_session_that_commits_notifies() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let mut heard = listen(&ground).await;
    let plain = ground.connect().await;
    let ways =
        [append("a", "short"), append("a", "long").with_id(tidelock_store::CommitId::fresh())];
    for commit in ways {
        committed(&store, commit).await;
        let sender = soon("a notification", heard.recv()).await.unwrap();
        let last = format!("SELECT query FROM pg_stat_activity WHERE pid = {sender}");
        assert_eq!(plain.one::<String>(&last).await, "SELECT pg_notify($1, $2)");
        let others = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '@' AND pid <> {sender}
             AND query LIKE '%notify%'"
        );
        assert_eq!(plain.one::<i64>(&others).await, 0);
    }
}

/// Which sessions notify, one after the other.
async fn listen(ground: &Ground) -> mpsc::UnboundedReceiver<i32> {
    let (client, mut connection) = tokio_postgres::connect(&ground.url, NoTls).await.unwrap();
    let (to, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                to.send(notification.process_id()).unwrap();
            }
        }
    });
    client.batch_execute(&format!("LISTEN tidelock_{}", ground.schema)).await.unwrap();
    tokio::spawn(async move {
        // The connection ends with its client.
        let _listening = client;
        std::future::pending::<()>().await;
    });
    heard
}
