//! A commit that fails half way, on a connection that continues to serve others.

use tidelock_store::{Bounds, RecordKey, RecordWrite, Store};

use crate::ground::{Ground, append, committed, soon};

/// Schedule 11. COMMIT-1: an object that a commit needs is missing, and then it is there again.
#[tokio::test]
async fn a_commit_that_failed_in_the_middle_leaves_no_transaction_to_the_next() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let plain = ground.connect().await;
    plain.run("ALTER FUNCTION tidelock.let_go RENAME TO gone").await;
    let counted = append("a", "counted").write(RecordWrite::add(
        &RecordKey::new("n").unwrap(),
        1,
        Bounds::NONE,
    ));
    soon("an answer", store.commit(counted.clone())).await.unwrap_err();
    plain.until_none_is_open().await;
    plain.run("ALTER FUNCTION tidelock.gone RENAME TO let_go").await;

    committed(&store, append("b", "plain")).await;
    committed(&store, counted).await;
    assert_eq!(plain.one::<i64>("SELECT count(*) FROM tidelock.events").await, 2);
}
