//! Lock order: commits that name the same streams in opposite order.

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, Position, RawJson, RecordKey, RecordWrite, Store,
};
use tidelock_store_postgres::{PostgresStore, Prepare};
use tokio::task::JoinHandle;

use crate::ground::{Ground, committed, event, feed_after, soon, stream};

fn to(names: &[&str]) -> Commit {
    names.iter().fold(Commit::new(), |commit, name| {
        commit.append(&stream(name), ExpectedVersion::Any, [event(name)])
    })
}

fn spawn(store: &PostgresStore, commit: Commit) -> JoinHandle<tidelock_store::Committed> {
    let store = store.clone();
    tokio::spawn(async move { committed(&store, commit).await })
}

/// Schedule 13: both lock the rows in the order of the names, so a waiting commit holds nothing
/// that another wants.
#[tokio::test]
async fn streams_are_locked_by_name_however_a_commit_lists_them() {
    let ground = Ground::shared();
    let (one, other) = (ground.open().await, ground.open().await);
    committed(&one, to(&["a", "b"])).await;
    let (holder, looker) = (ground.connect().await, ground.connect().await);
    holder.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'a' FOR UPDATE").await;
    let waiting = [spawn(&one, to(&["a", "b"])), spawn(&other, to(&["b", "a"]))];
    looker.until_blocked(2).await;
    looker.run("SELECT FROM tidelock.streams WHERE name = 'b' FOR UPDATE NOWAIT").await;

    holder.run("COMMIT").await;
    for commit in waiting {
        soon("a commit", commit).await.unwrap();
    }
    assert_eq!(feed_after(&one, Position::START).await.len(), 6);
}

/// The batches for streams of unknown state, and for streams that must exist.
const WAYS: [ExpectedVersion; 2] = [ExpectedVersion::Any, ExpectedVersion::Exists];

/// Both ways of planning: by an index each time, which our own connections are set to; and the
/// server's default, where a connection cannot be configured. For a table as small as here the
/// default is a sequential scan.
const PLANS: [Prepare; 2] = [Prepare::Always, Prepare::Never];

/// Schedule 13: the same for commits that share a batch of the fast path, one stream each.
#[tokio::test]
async fn streams_of_a_batch_are_locked_by_name_wherever_they_lie_in_the_table() {
    for (prepare, expected) in
        PLANS.iter().flat_map(|prepare| WAYS.map(|expected| (*prepare, expected)))
    {
        let ground = Ground::shared();
        let store = ground.open_with(|options| options.prepare = prepare).await;
        for name in ["z", "a", "m"] {
            committed(&store, to(&[name])).await;
        }
        let (table, holder, looker) =
            (ground.connect().await, ground.connect().await, ground.connect().await);
        table
            .run("ANALYZE tidelock.streams; BEGIN; LOCK TABLE tidelock.events IN SHARE MODE")
            .await;
        let ahead = spawn(&store, to(&["m"]));
        looker.until_blocked(1).await;
        holder.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'a' FOR UPDATE").await;
        let batch = ["z", "a"].map(|name| {
            spawn(&store, Commit::new().append(&stream(name), expected, [event(name)]))
        });
        until_queued(&store, 1 + batch.len()).await;

        table.run("COMMIT").await;
        soon("the one ahead", ahead).await.unwrap();
        looker.until_blocked(1).await;
        assert_eq!(looker.one::<i64>(VERSION_OF_Z).await, 1, "they travelled apart");
        looker.run("SELECT FROM tidelock.streams WHERE name = 'z' FOR UPDATE NOWAIT").await;
        holder.run("COMMIT").await;
        for commit in batch {
            soon("a commit", commit).await.unwrap();
        }
        assert_eq!(looker.one::<i64>(VERSION_OF_Z).await, 2);
    }
}

const VERSION_OF_Z: &str = "SELECT version FROM tidelock.streams WHERE name = 'z'";

/// Waits until this many commits of the handle are in flight or queued.
async fn until_queued(store: &PostgresStore, commits: usize) {
    let queued = async {
        while store
            .blockers()
            .await
            .unwrap()
            .commits
            .is_none_or(|held| held.commits_waiting < commits)
        {}
    };
    soon("the commits to be queued", queued).await;
}

/// Schedule 13: the same for records on the fast path.
#[tokio::test]
async fn records_of_a_batch_are_locked_by_key_wherever_they_lie_in_the_table() {
    for prepare in PLANS {
        let ground = Ground::shared();
        let store = ground.open_with(|options| options.prepare = prepare).await;
        for key in ["z", "a"] {
            committed(&store, put(&[key])).await;
        }
        let (holder, looker) = (ground.connect().await, ground.connect().await);
        let others = "INSERT INTO tidelock.records (key, revision) SELECT 'other-' || n, 1 FROM generate_series(1, 200) n";
        holder.run(&format!("{others}; ANALYZE tidelock.records; BEGIN")).await;
        holder.run("SELECT FROM tidelock.records WHERE key = 'a' FOR UPDATE").await;
        let waiting = spawn(&store, put(&["z", "a"]));
        looker.until_blocked(1).await;
        looker.run("SELECT FROM tidelock.records WHERE key = 'z' FOR UPDATE NOWAIT").await;
        holder.run("COMMIT").await;
        soon("the commit", waiting).await.unwrap();
    }
}

fn put(keys: &[&str]) -> Commit {
    keys.iter().fold(Commit::new(), |commit, key| {
        let (key, value) = (RecordKey::new(*key).unwrap(), RawJson::new(&1).unwrap());
        commit.write(RecordWrite::put(&key, ExpectedRevision::Any, value))
    })
}

/// Schedule 13: another program locks rows in another order than the store, and the server picks
/// the store's transaction as the victim. The store retries.
#[tokio::test]
async fn a_deadlock_with_a_stranger_is_not_the_callers_affair() {
    let ground = Ground::shared();
    let store = ground.open_where("deadlock_timeout%3D10ms").await;
    committed(&store, to(&["a", "b", "c"])).await;
    let (holder, stranger, looker) =
        (ground.connect().await, ground.connect().await, ground.connect().await);
    holder.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'b' FOR UPDATE").await;
    // It never checks for a deadlock itself, so it is never the victim.
    stranger.run("SET deadlock_timeout = '1h'").await;
    stranger.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'c' FOR UPDATE").await;
    let commit = spawn(&store, to(&["c", "b", "a"]));
    looker.until_blocked(1).await;
    let crossing = tokio::spawn(async move {
        stranger.run("SELECT FROM tidelock.streams WHERE name = 'a' FOR UPDATE; COMMIT").await;
    });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT FROM @.streams WHERE name = ''a''%'
                 AND wait_event_type = 'Lock')";
    looker.until("the stranger waits for the store", waits).await;
    let before = deadlocks(&looker).await;

    holder.run("COMMIT").await;
    soon("the commit", commit).await.unwrap();
    soon("the stranger", crossing).await.unwrap();
    let after = format!(
        "SELECT deadlocks > {before} FROM pg_stat_database WHERE datname = current_database()"
    );
    looker.until("the server has counted a deadlock", &after).await;
    assert_eq!(feed_after(&store, Position::START).await.len(), 6);
}

async fn deadlocks(looker: &crate::ground::Plain) -> i64 {
    looker.one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
}

/// Schedule 13. LOG-2: new streams, existing streams, and streams that must not exist, in every
/// order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_cross_each_other_are_all_answered() {
    let ground = Ground::shared();
    let mut callers = Vec::new();
    for handle in 0..4 {
        let store = ground.open_where("deadlock_timeout%3D10ms").await;
        callers.push(tokio::spawn(cross(store, handle)));
    }
    let mut accepted = 0;
    for caller in callers {
        accepted += soon("a caller", caller).await.unwrap();
    }
    let sums = "SELECT sum(version)::bigint FROM tidelock.streams WHERE name IN ('a', 'm', 'z')";
    let plain = ground.connect().await;
    assert_eq!(plain.one::<i64>(sums).await, 3 * accepted);
    assert!(
        accepted >= 2 * ROUNDS,
        "those that rely on nothing are never refused, and {accepted} were accepted"
    );
    assert!(
        !plain.one::<bool>("SELECT EXISTS (SELECT FROM tidelock.streams WHERE version = 0)").await
    );
}

const ROUNDS: i64 = 25;

/// How many commits were accepted.
async fn cross(store: PostgresStore, handle: usize) -> i64 {
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let outcome = soon("a commit", store.commit(crossing(handle, round))).await.unwrap();
        accepted += i64::from(outcome.committed().is_ok());
    }
    accepted
}

/// Half of them list the streams backwards; half rely on the absence of one that the others create.
fn crossing(handle: usize, round: i64) -> Commit {
    let new = format!("new-{round}");
    let mut names = vec!["a", "m", &new, "z"];
    if handle % 2 == 1 {
        names.reverse();
    }
    if handle < 2 {
        return to(&names);
    }
    names.retain(|name| *name != new);
    to(&names).guard_stream(&stream(&new), ExpectedVersion::NoStream)
}
