//! A commit that waits for the standby and is interrupted: that is no success.

use tidelock_store::{
    Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, Position, RawJson,
    RecordKey, RecordWrite, Result, RetryAdvice, Revision, Store, StoreErrorKind,
};
use tidelock_store_postgres::PostgresStore;
use tokio::task::JoinHandle;

use crate::careful::{LONG, commit, read_after, wake_and_lease};
use crate::ground::{event, stream};
use crate::pair::{Pair, wait_until};

/// Schedule 75; COMMIT-4, COMMIT-6, LOG-5 and LEASE-9. Each commit is interrupted twice, because a
/// recognized commit must wait like a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_told_not_to_wait_is_unknown_until_the_standby_has_it() {
    let pair = Pair::synchronous();
    // Maintenance would wait for the standby as well.
    let store = PostgresStore::open(&(pair.url() + "?sweep_interval_ms=3600000")).await.unwrap();
    let cancelled = every_kind(&store, "cancelled").await;
    let ended = every_kind(&store, "ended").await;
    pair.cut_off_standby();
    for (injury, commits) in [("pg_cancel_backend", &cancelled), ("pg_terminate_backend", &ended)] {
        for (way, commit) in commits.iter().chain(commits) {
            let sent = send(&store, *way, commit);
            injure(&pair, injury, &sent);
            assert_unknown(sent.await.unwrap());
        }
    }
    pair.reconnect_standby();
    for (way, commit) in cancelled.iter().chain(&ended) {
        assert_there_once(&store, commit, send(&store, *way, commit).await.unwrap()).await;
    }
}

/// The path of a commit to the server.
#[derive(Debug, Clone, Copy)]
enum CommitPath {
    Store,
    /// In a user transaction.
    Transaction,
}

/// Commits that can be sent again, each recognized in another way; among them one for each path to
/// the server.
async fn every_kind(store: &PostgresStore, name: &str) -> Vec<(CommitPath, Commit)> {
    let append_to = |commit: Commit, nth| {
        commit.append(&stream(&format!("{name}-{nth}")), ExpectedVersion::NoStream, [event("said")])
    };
    let append = |nth| append_to(Commit::new(), nth);
    let lease = wake_and_lease(store, name, LONG).await;
    let there = stream(&format!("{name}-there"));
    commit(store, Commit::new().append(&there, ExpectedVersion::NoStream, [event("before")])).await;
    let record = RecordKey::new(name).unwrap();
    let put = RecordWrite::put(&record, ExpectedRevision::Absent, RawJson::new(&1).unwrap());
    vec![
        (CommitPath::Store, append(1)),
        (CommitPath::Store, Commit::new().append(&there, ExpectedVersion::Exists, [event("next")])),
        (CommitPath::Store, Commit::new().write(put).with_id(CommitId::fresh())),
        (CommitPath::Store, append_to(append(2), 3)),
        (CommitPath::Store, append(4).with_id(CommitId::fresh())),
        (CommitPath::Store, Commit::new().settle(lease.ack())),
        (CommitPath::Transaction, append(5).with_id(CommitId::fresh())),
    ]
}

type Sent = JoinHandle<Result<CommitOutcome>>;

fn send(store: &PostgresStore, way: CommitPath, commit: &Commit) -> Sent {
    let (store, commit) = (store.clone(), commit.clone());
    tokio::spawn(async move {
        match way {
            CommitPath::Store => store.commit(commit).await,
            CommitPath::Transaction => store.begin().await?.commit(commit).await,
        }
    })
}

/// Interrupts the commit, once it waits for the standby.
fn injure(pair: &Pair, injury: &str, sent: &Sent) {
    let sql = format!(
        "SELECT CASE wait_event WHEN 'SyncRep' THEN {injury}(pid) END FROM pg_stat_activity"
    );
    wait_until("the commit waits for the standby", || {
        assert!(!sent.is_finished(), "it was answered, and the standby does not have it");
        pair.says(&sql).contains('t')
    });
}

fn assert_unknown(outcome: Result<CommitOutcome>) {
    let error = outcome.expect_err("the standby does not have it");
    assert_eq!(
        (error.kind(), error.advice()),
        (StoreErrorKind::Unavailable, RetryAdvice::Unknown),
        "{error}"
    );
}

/// Checks that each append of the commit made one event, at the acknowledged position; and each
/// write one revision.
async fn assert_there_once(store: &PostgresStore, commit: &Commit, outcome: Result<CommitOutcome>) {
    let committed = outcome.unwrap().committed().unwrap();
    let events = read_after(store, Position::START).await.unwrap();
    for (append, told) in commit.appends.iter().zip(&committed.appends) {
        let there: Vec<_> = events.iter().filter(|event| event.id == append.events[0].id).collect();
        let [event] = there[..] else { panic!("{there:?}") };
        assert_eq!(event.stream, append.stream);
        assert_eq!(
            (told.version, told.positions),
            (event.version, Some((event.position, event.position)))
        );
    }
    assert!(
        committed.writes.iter().all(|written| written.revision == Some(Revision::FIRST)),
        "{committed:?}"
    );
}
