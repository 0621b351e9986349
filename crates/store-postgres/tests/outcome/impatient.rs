//! A caller that gives up, and sends the same commit again while the first is still in flight.

use tidelock_store::{
    Bounds, Commit, CommitId, ExpectedVersion, Position, RecordKey, RecordWrite, Store,
};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, committed, event, feed_after, soon, stream};

/// Sends a commit that is blocked, gives up, sends it again over both handles, and lets all
/// continue.
async fn send_three_times(
    ground: &Ground,
    one: &PostgresStore,
    other: &PostgresStore,
    commit: &Commit,
) {
    let (holder, looker) = (ground.connect().await, ground.connect().await);
    holder.run("BEGIN; LOCK TABLE tidelock.events IN SHARE MODE").await;
    let given_up = tokio::spawn({
        let (store, commit) = (one.clone(), commit.clone());
        async move { store.commit(commit).await }
    });
    looker.until_blocked(1).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());

    let again = [one, other].map(|store| {
        let (store, commit) = (store.clone(), commit.clone());
        tokio::spawn(async move { committed(&store, commit).await })
    });
    looker.until_blocked(2).await;
    holder.run("COMMIT").await;
    let [first, second] = again;
    let first = soon("the caller's second try", first).await.unwrap();
    let second = soon("the third try", second).await.unwrap();
    assert_eq!(first.appends[0].positions, second.appends[0].positions);
}

/// Schedule 12. LOG-5.
#[tokio::test]
async fn an_append_that_lands_after_its_caller_gave_up_is_there_once() {
    let ground = Ground::shared();
    let (one, other) = (ground.open().await, ground.open().await);
    for (nth, expected) in [ExpectedVersion::NoStream, ExpectedVersion::Any].into_iter().enumerate()
    {
        let commit =
            Commit::new().append(&stream(&format!("late-{nth}")), expected, [event("late")]);
        send_three_times(&ground, &one, &other, &commit).await;
        assert_eq!(feed_after(&one, Position::START).await.len(), nth + 1);
    }
}

/// Schedule 12. COMMIT-4.
#[tokio::test]
async fn a_commit_with_an_id_that_lands_after_its_caller_gave_up_is_made_once() {
    let ground = Ground::shared();
    let (one, other) = (ground.open().await, ground.open().await);
    let total = RecordKey::new("total").unwrap();
    let commit = Commit::new()
        .append(&stream("late"), ExpectedVersion::NoStream, [event("late")])
        .write(RecordWrite::add(&total, 1, Bounds::NONE))
        .with_id(CommitId::fresh());
    send_three_times(&ground, &one, &other, &commit).await;
    assert_eq!(feed_after(&other, Position::START).await.len(), 1);
    let total: String = ground.connect().await.one("SELECT value FROM tidelock.records").await;
    assert_eq!(total, "1");
}
