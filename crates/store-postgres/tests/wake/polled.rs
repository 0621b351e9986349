//! Polling, without notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_store::{RecordKey, RecordWrite, Store, StoreExt, Topic};
use tidelock_store_postgres::{Notify, PostgresOptions};

use crate::ground::{Ground, append, committed, lease, queue, soon, wake};

const POLL: Duration = Duration::from_millis(50);

fn silent(options: &mut PostgresOptions) {
    options.notify = Notify::Never;
    options.poll_interval = POLL;
}

/// Everything works with polling alone, later.
#[tokio::test]
async fn without_notifications_polling_finds_everything() {
    let ground = Ground::shared();
    let (one, other) = (ground.open_with(silent).await, ground.open_with(silent).await);
    let key = RecordKey::new("bell").unwrap();
    for nth in 1..=3 {
        let [mut log, mut record, mut items] =
            [Topic::Log, Topic::Record(key.clone()), Topic::Queue(queue())]
                .map(|topic| one.signal(topic));
        let commit =
            append("a", "a").write(RecordWrite::add(&key, 1, tidelock_store::Bounds::NONE));
        committed(&other, wake("letter")).await;
        committed(&other, commit).await;
        for signal in [&mut log, &mut record, &mut items] {
            soon("a poll", signal.wait()).await;
        }
        assert_eq!(one.read_whole_stream(&crate::ground::stream("a")).await.unwrap().len(), nth);
        let held = lease(&one, "worker", 1).await.remove(0);
        committed(&one, tidelock_store::Commit::new().settle(held.ack())).await;
    }
    let told = "SELECT count(*) FROM pg_stat_activity
                WHERE application_name = '@' AND (query LIKE 'LISTEN %' OR query LIKE '%pg_notify%')";
    assert_eq!(ground.connect().await.one::<i64>(told).await, 0);
}

/// Schedule 14: the bound also holds for a process that is busy with its own commits. No
/// notification keeps it from polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_process_polls_as_well() {
    let ground = Ground::shared();
    let busy = ground.open_with(|options| options.poll_interval = Duration::from_secs(1)).await;
    let quiet = ground.open_with(silent).await;
    let mut signal = busy.signal(Topic::Queue(queue()));
    let done = Arc::new(AtomicBool::new(false));
    let traffic = tokio::spawn({
        let (busy, done) = (busy.clone(), done.clone());
        async move {
            let mut commits = 0;
            while !done.load(Ordering::SeqCst) {
                committed(&busy, append("traffic", "traffic")).await;
                commits += 1;
            }
            commits
        }
    });
    committed(&quiet, wake("letter")).await;
    let polled = tokio::time::timeout(crate::ground::PATIENCE, signal.wait()).await;
    done.store(true, Ordering::SeqCst);
    let commits = soon("the traffic", traffic).await.unwrap();
    assert!(polled.is_ok(), "no poll beside {commits} commits");
}
