//! What a handle sends to the server by itself.

use std::time::Duration;

use tidelock_store::{Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite, Store, When};
use tidelock_store_postgres::PostgresStore;
use tokio::task::JoinHandle;

use crate::ground::{Ground, append, committed};

const INTERVAL: Duration = Duration::from_millis(100);

async fn open(ground: &Ground) -> PostgresStore {
    ground
        .open_with(|options| {
            options.sweep_interval = INTERVAL;
            options.poll_interval = INTERVAL;
        })
        .await
}

/// A handle that is used all the time.
async fn busy(ground: &Ground) -> JoinHandle<()> {
    let store = open(ground).await;
    tokio::spawn(async move {
        loop {
            committed(&store, append("busy", "a")).await;
        }
    })
}

/// Records every save of the clock.
const WATCH: &str = "CREATE TABLE tidelock.saves (nth bigserial, before bigint, after bigint);
    CREATE FUNCTION tidelock.note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO tidelock.saves (before, after) VALUES (OLD.clock, NEW.clock); RETURN NULL; END';
    CREATE TRIGGER note AFTER UPDATE OF clock ON tidelock.meta FOR EACH ROW EXECUTE FUNCTION tidelock.note()";

/// There is one row for it, so the work must not grow with the number of processes.
#[tokio::test]
async fn however_many_handles_there_are_the_clock_is_written_down_about_once_in_an_interval() {
    let ground = Ground::shared();
    let plain = ground.connect().await;
    let mut handles = vec![busy(&ground).await];
    plain.run(WATCH).await;
    for _ in 1..6 {
        handles.push(busy(&ground).await);
    }
    plain
        .until(
            "the clock was written down a few times",
            "SELECT count(*) >= 12 FROM tidelock.saves",
        )
        .await;
    let too_early = format!(
        "SELECT count(*) FROM tidelock.saves WHERE after - before < {}",
        INTERVAL.as_micros() / 2
    );
    assert_eq!(plain.one::<i64>(&too_early).await, 0);
    handles.iter().for_each(JoinHandle::abort);
}

/// A thousand of them cost the server a thousand connections, and nothing more.
#[tokio::test]
async fn an_unused_handle_sends_nothing() {
    let ground = Ground::shared();
    let (idle, plain) = (open(&ground).await, ground.connect().await);
    let elsewhere = Ground::shared();
    let (other, watcher) = (busy(&elsewhere).await, elsewhere.connect().await);
    watcher.run(WATCH).await;
    // The first queries look for what was due at open, so the first samples may differ.
    let mut samples = vec![plain.one::<String>(LAST_QUERY).await];
    for stretch in 1..=4 {
        let rounds = format!("SELECT count(*) >= {} FROM tidelock.saves", 6 * stretch);
        watcher.until("the other handle has done several rounds", &rounds).await;
        samples.push(plain.one(LAST_QUERY).await);
    }
    assert_eq!(samples[3], samples[4], "it still queries: {samples:?}");
    other.abort();
    drop(idle);
}

const LAST_QUERY: &str =
    "SELECT max(query_start)::text FROM pg_stat_activity WHERE application_name = '@'";

/// KEEP-2: what becomes due when nothing is committed any more is removed all the same.
#[tokio::test]
async fn what_is_due_later_is_swept_though_the_handle_is_not_used_any_more() {
    let ground = Ground::shared();
    let (store, plain) = (open(&ground).await, ground.connect().await);
    let soon = When::In(INTERVAL * 3);
    let record = RecordWrite::put(
        &RecordKey::new("k").unwrap(),
        ExpectedRevision::Any,
        RawJson::new(&1).unwrap(),
    );
    committed(&store, Commit::new().write(record.expiring(soon))).await;
    plain.until("its value is gone", "SELECT count(value) = 0 FROM tidelock.records").await;
}

/// KEEP-1, KEEP-2: what became due while the store was not open is removed even if it is only read.
#[tokio::test]
async fn what_is_due_when_a_store_is_opened_is_swept_though_nothing_is_written() {
    let ground = Ground::shared();
    let plain = ground.connect().await;
    drop(open(&ground).await);
    plain
        .run("INSERT INTO tidelock.records (key, revision, value, expires_at) VALUES ('k', 1, NULL, 1)")
        .await;
    let looking = ground
        .open_with(|options| (options.sweep_interval, options.migrate) = (INTERVAL, false))
        .await;
    let reading = open(&ground).await;
    reading.get(&[RecordKey::new("k").unwrap()]).await.unwrap();
    plain.until("it is forgotten", "SELECT count(*) = 0 FROM tidelock.records").await;
    drop((looking, reading));
}

/// A session that blocks commits for long is reported.
#[tokio::test]
async fn blocked_processes_look_for_the_session_that_blocks_them() {
    const LOOKS: &str = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE application_name = '@' AND query LIKE '%pg_blocking_pids%'";
    let ground = Ground::shared();
    let (store, plain) = (open(&ground).await, ground.connect().await);
    let holder = ground.block_appends().await;
    let held = tokio::spawn(async move { committed(&store, append("a", "held up")).await });
    plain.until("it was looked for", LOOKS).await;
    holder.run("COMMIT").await;
    held.await.unwrap();
}
