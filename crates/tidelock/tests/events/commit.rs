//! One commit to the store below the patterns: all of it or nothing, with names as strings.

use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::{CommitId, CommitOutcome, StoreExt, ViolationKind};
use tidelock::{CommitBuilder, ErrorKind};
use tidelock_test_stage::{TestStore, on_every_store};

on_every_store!(
    a_commit_by_name_is_written_whole_or_not_at_all,
    an_invalid_name_is_reported_when_the_commit_is_awaited,
    a_commit_with_an_id_is_written_once,
);

fn order(tidelock: &Tidelock, id: &str) -> CommitBuilder {
    let placed = event("placed", json!({ "units": 12 }));
    tidelock
        .commit()
        .append(id, ExpectedVersion::NoStream, placed)
        .put(format!("open/{id}"), "placed")
        .add("sold/tea", 12, ..=18)
        .enqueue("mail", id)
}

/// COMMIT-1.
async fn a_commit_by_name_is_written_whole_or_not_at_all(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let done = order(&tidelock, "order-7").await.unwrap();
    assert_eq!((done.appends.len(), done.writes[1].sum), (1, Some(12)));

    let refused = order(&tidelock, "order-8").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(refused.conflict().unwrap().has(ViolationKind::Exceeded), "{refused}");
    let outcome = order(&tidelock, "order-8").outcome().await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict(_)), "{outcome:?}");

    let stream = order(&tidelock, "order-8").build().unwrap().appends[0].stream.clone();
    assert!(tidelock.store().read_whole_stream(&stream).await.unwrap().is_empty());
    let leased = tidelock.queue("mail").lease("one").limit(10).await.unwrap();
    let keys: Vec<_> = leased.iter().map(|item| item.lease.item.key.as_str()).collect();
    assert_eq!(keys, ["order-7"]);
}

async fn an_invalid_name_is_reported_when_the_commit_is_awaited(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let nameless = order(&tidelock, "order-7").put("", &1).add("count", 1, ..);
    assert_eq!(nameless.await.unwrap_err().kind(), ErrorKind::Invalid);
    let typeless =
        order(&tidelock, "order-7").append("order-9", ExpectedVersion::Any, event("", 1));
    assert_eq!(typeless.await.unwrap_err().kind(), ErrorKind::Invalid);
    let reserved = order(&tidelock, "order-7").enqueue("~run", "order-7");
    assert_eq!(reserved.await.unwrap_err().kind(), ErrorKind::Invalid);
    order(&tidelock, "order-7").await.expect("nothing was written before");
}

/// COMMIT-4.
async fn a_commit_with_an_id_is_written_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let id = CommitId::fresh();
    let add = || tidelock.commit().add("count", 1, ..).id(id);
    let first = add().await.unwrap();
    assert_eq!(add().await.unwrap(), first);
    let other = tidelock.commit().add("count", 2, ..).id(id).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::IdempotencyMismatch, "{other}");
}
