//! Appends and writes that meet a sweep: no version, revision or fence is reused.

use tidelock_store::{
    AfterTrim, Append, Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, Mark,
    RawJson, RecordKey, RecordWrite, Settlement, Store, Version, Wake, When,
};
use tidelock_store_postgres::{PostgresStore, Prepare};
use tokio::task::JoinHandle;

use crate::ground::{Ground, Plain, committed, event, item, lease, soon, stream};

/// A store with a stream that is past its retention, and a session in the middle of sweeping it.
struct Sweep {
    ground: Ground,
    store: PostgresStore,
    sweeper: Plain,
}

/// The stream is at version 3 and empty.
const NAME: &str = "run/a";

impl Sweep {
    async fn begun(prepare: Prepare) -> Self {
        let ground = Ground::shared();
        let store = open(&ground, prepare).await;
        forget(&store, NAME, 3).await;
        let sweeper = ground.connect().await;
        sweeper.run("BEGIN; SELECT tidelock.forget_streams(500)").await;
        Self { ground, store, sweeper }
    }

    /// Sends a commit, which has to wait for the sweep; returns the version of its first append.
    async fn version_after(self, commit: Commit) -> u64 {
        let waiting = spawn(&self.store, commit);
        self.ground.connect().await.until_blocked(1).await;
        self.sweeper.run("COMMIT").await;
        let outcome = soon("the commit", waiting).await.unwrap();
        outcome.committed().unwrap().appends[0].version.get()
    }
}

/// Nothing is swept here except by the tests.
async fn open(ground: &Ground, prepare: Prepare) -> PostgresStore {
    ground
        .open_with(|options| {
            options.prepare = prepare;
            options.sweep_interval = crate::ground::NEVER;
        })
        .await
}

fn spawn(store: &PostgresStore, commit: Commit) -> JoinHandle<CommitOutcome> {
    let store = store.clone();
    tokio::spawn(async move { store.commit(commit).await.unwrap() })
}

/// Creates a stream of this many events, removes them and has it forgotten immediately.
async fn forget(store: &PostgresStore, name: &str, count: u64) {
    let events = (0..count).map(|_| event("gone"));
    committed(store, Commit::new().append(&stream(name), ExpectedVersion::Any, events)).await;
    let last = Version::new(count).unwrap();
    let close = Append::closing(&stream(name), ExpectedVersion::Exact(last));
    let now = AfterTrim::Forget(When::NOW);
    committed(store, Commit::new().with_append(close).trim(&stream(name), last, now)).await;
}

fn append(name: &str, expected: ExpectedVersion) -> Commit {
    Commit::new().append(&stream(name), expected, [event("new")])
}

const PLANS: [Prepare; 2] = [Prepare::Always, Prepare::Never];
const CREATING: [ExpectedVersion; 2] = [ExpectedVersion::Any, ExpectedVersion::NoStream];

/// Schedule 106; KEEP-3 and LOG-2: the row that an append waits for is gone when the wait ends.
#[tokio::test]
async fn an_append_that_waits_for_a_sweep_begins_above_what_was_swept() {
    for prepare in PLANS {
        for expected in CREATING {
            let sweep = Sweep::begun(prepare).await;
            assert_eq!(sweep.version_after(append(NAME, expected)).await, 4, "{expected:?}");
        }
    }
}

/// The same for several events, which another function appends.
#[tokio::test]
async fn an_append_of_several_events_that_waits_for_a_sweep_begins_above_what_was_swept() {
    for expected in CREATING {
        let sweep = Sweep::begun(Prepare::Always).await;
        let two = Commit::new().append(&stream(NAME), expected, [event("new"), event("too")]);
        assert_eq!(sweep.version_after(two).await, 5, "{expected:?}");
    }
}

/// The same for a commit of several parts.
#[tokio::test]
async fn a_commit_that_waits_for_a_sweep_begins_above_what_was_swept() {
    for expected in CREATING {
        let sweep = Sweep::begun(Prepare::Always).await;
        let mixed = append(NAME, expected).write(put("beside"));
        assert_eq!(sweep.version_after(mixed).await, 4, "{expected:?}");
    }
}

/// Schedule 106; LOG-2. The stream did not exist when the commit read it; it was created and
/// removed before its row was written.
#[tokio::test]
async fn a_stream_that_came_and_went_between_two_trips_is_not_begun_at_its_versions_again() {
    let ground = Ground::shared();
    let (store, other) =
        (open(&ground, Prepare::Always).await, open(&ground, Prepare::Always).await);
    let (holder, looker) = (ground.connect().await, ground.connect().await);
    // New streams are created by name, so this one blocks the other.
    holder.run("BEGIN; INSERT INTO tidelock.streams (name, version) VALUES ('before', 1)").await;
    let none = ExpectedVersion::NoStream;
    let waiting = spawn(&store, append(NAME, none).append(&stream("before"), none, [event("new")]));
    looker.until_blocked(1).await;
    forget(&other, NAME, 3).await;
    other.sweep().await.unwrap();
    holder.run("ROLLBACK").await;
    let outcome = soon("the commit", waiting).await.unwrap();
    assert_eq!(outcome.committed().unwrap().appends[0].version.get(), 4);
}

fn put(key: &str) -> RecordWrite {
    RecordWrite::put(
        &RecordKey::new(key).unwrap(),
        ExpectedRevision::Any,
        RawJson::new(&1).unwrap(),
    )
}

/// Schedule 106; KEEP-1 and REC-2: the tombstone that a write has read is gone when its row is
/// unlocked.
#[tokio::test]
async fn a_write_that_waits_for_a_sweep_goes_on_above_what_was_swept() {
    for beside in [None, Some("beside")] {
        let ground = Ground::shared();
        let store = open(&ground, Prepare::Always).await;
        let delete = RecordWrite::delete(&RecordKey::new("k").unwrap(), ExpectedRevision::Any);
        committed(&store, Commit::new().write(put("k"))).await;
        committed(&store, Commit::new().write(delete)).await;
        let sweeper = ground.connect().await;
        sweeper.run("UPDATE tidelock.records SET expires_at = 1").await;
        sweeper.run("BEGIN; SELECT tidelock.forget_records(500)").await;
        let commit = beside.into_iter().fold(Commit::new().write(put("k")), |commit, name| {
            commit.append(&stream(name), ExpectedVersion::Any, [event("new")])
        });
        let waiting = spawn(&store, commit);
        ground.connect().await.until_blocked(1).await;
        sweeper.run("COMMIT").await;
        let outcome = soon("the commit", waiting).await.unwrap();
        assert_eq!(outcome.committed().unwrap().writes[0].revision.unwrap().get(), 3);
    }
}

/// Schedule 106; KEEP-2 and LEASE-2: a wake that waits for a sweep creates the item again, and its
/// fence continues.
#[tokio::test]
async fn a_wake_that_waits_for_a_sweep_makes_an_item_with_a_higher_fence() {
    let ground = Ground::shared();
    let store = open(&ground, Prepare::Always).await;
    let wake = || Commit::new().wake(Wake::to_mark(item("a"), Mark::new(1).unwrap()));
    committed(&store, wake()).await;
    let first = lease(&store, "w", 1).await.remove(0);
    let finished = Settlement::finish(first.token(), first.mark, When::NOW);
    committed(&store, Commit::new().settle(finished)).await;
    let sweeper = ground.connect().await;
    sweeper.run("BEGIN; SELECT tidelock.forget_items(500)").await;
    let waiting = spawn(&store, wake());
    ground.connect().await.until_blocked(1).await;
    sweeper.run("COMMIT").await;
    soon("the commit", waiting).await.unwrap().committed().unwrap();
    let second = lease(&store, "w", 1).await.remove(0);
    assert!(second.fence > first.fence, "{} came after {}", second.fence, first.fence);
}

/// Schedule 106: a sweep leaves locked rows, takes the rest, and is told when another one is
/// running.
#[tokio::test]
async fn a_sweep_leaves_what_is_locked() {
    let ground = Ground::shared();
    let store = open(&ground, Prepare::Always).await;
    for key in ["a", "b"] {
        let short = put(key).expiring(When::NOW);
        committed(&store, Commit::new().write(short)).await;
    }
    let (holder, plain) = (ground.connect().await, ground.connect().await);
    holder.run("UPDATE tidelock.records SET expires_at = 1").await;
    holder.run("BEGIN; SELECT FROM tidelock.records WHERE key = 'a' FOR UPDATE").await;
    assert_eq!(plain.one::<i64>("SELECT tidelock.forget_records(500)").await, 1);
    assert_eq!(plain.all::<String>("SELECT key FROM tidelock.records").await, ["a"]);

    holder.run("SELECT tidelock.forget_streams(500)").await;
    assert!(plain.one::<Option<i64>>("SELECT tidelock.forget_records(500)").await.is_none());
    holder.run("COMMIT").await;
    store.sweep().await.unwrap();
    assert!(plain.all::<String>("SELECT key FROM tidelock.records").await.is_empty());
}

/// KEEP-1. The value is removed as soon as the record has expired, and not with the tombstone.
#[tokio::test]
async fn the_value_of_an_expired_record_leaves_before_its_tombstone() {
    let ground = Ground::shared();
    let store = open(&ground, Prepare::Always).await;
    committed(&store, Commit::new().write(put("k").expiring(When::NOW))).await;
    let (plain, values) = (ground.connect().await, "SELECT value IS NULL FROM tidelock.records");
    assert_eq!(plain.all::<bool>(values).await, [false]);
    store.sweep().await.unwrap();
    assert_eq!(plain.all::<bool>(values).await, [true], "the tombstone");
    plain.run("UPDATE tidelock.records SET expires_at = 1").await;
    store.sweep().await.unwrap();
    assert_eq!(plain.all::<bool>(values).await, [false; 0]);
}

/// KEEP-4. What reads as forgotten is also removed from the table.
#[tokio::test]
async fn the_row_of_a_commit_id_leaves_when_its_time_has_come() {
    let ground = Ground::shared();
    let store = open(&ground, Prepare::Always).await;
    for commit in [Commit::new().write(put("k")), append("s", ExpectedVersion::Any)] {
        committed(&store, commit.with_id(CommitId::fresh())).await;
    }
    let (plain, count) = (ground.connect().await, "SELECT count(*) FROM tidelock.commits");
    store.sweep().await.unwrap();
    assert_eq!(plain.one::<i64>(count).await, 2, "they are remembered");
    plain.run("UPDATE tidelock.commits SET forget_at = 1").await;
    store.sweep().await.unwrap();
    assert_eq!(plain.one::<i64>(count).await, 0);
}

/// An append to a stream that does not expire stays within its page: it must not touch an index.
#[tokio::test]
async fn plain_appends_and_writes_touch_no_index_of_what_leaves() {
    let ground = Ground::shared();
    let store = open(&ground, Prepare::Always).await;
    committed(&store, append("s", ExpectedVersion::NoStream)).await;
    committed(&store, Commit::new().write(put("k"))).await;
    for _ in 0..20 {
        committed(&store, append("s", ExpectedVersion::Exists)).await;
        committed(&store, append("s", ExpectedVersion::Any)).await;
        committed(&store, Commit::new().write(put("k"))).await;
    }
    store.close().await.unwrap();
    let plain = ground.connect().await;
    for (table, updates) in [("streams", 40), ("records", 20)] {
        let hot = format!(
            "SELECT n_tup_upd = {updates} AND n_tup_hot_upd >= {updates} - 2 FROM pg_stat_user_tables
             WHERE schemaname = '@' AND relname = '{table}'"
        );
        plain.until(&format!("the server has counted the updates of {table}"), &hot).await;
    }
}
