//! A panic in the middle of a batch of commits.

use futures_util::future::join_all;
use tidelock_store::{RetryAdvice, Store};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use crate::ground::{Ground, append, committed, soon};

/// A logger that panics. It receives only the events about failed batches.
struct BrokenLog;

impl Subscriber for BrokenLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().ends_with("store_postgres::commit::committer")
    }

    fn event(&self, _: &Event<'_>) {
        panic!("this is a test: the log is broken");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// So many that the first goes alone, and the others share the next batch.
async fn commit_some(
    store: &PostgresStore,
) -> Vec<tidelock_store::Result<tidelock_store::CommitOutcome>> {
    let commits = (0..4).map(|nth| store.commit(append(&nth.to_string(), "some")));
    soon("answers", join_all(commits)).await
}

/// COMMIT-6: the outcome of the commits in that batch is unknown. Later commits are served.
#[tokio::test]
async fn a_panic_leaves_its_own_batch_unknown_and_takes_no_other_with_it() {
    let ground = Ground::shared();
    let proxy = Proxy::to(ground.port()).unwrap();
    let store = ground.through(proxy.port()).open().await;
    committed(&store, append("warm", "warm")).await;
    proxy.refuse();
    {
        let _broken = subscriber::set_default(BrokenLog);
        let mut outcomes = commit_some(&store).await;
        for cut_off in outcomes.drain(1..) {
            let error = cut_off.unwrap_err();
            assert_eq!(error.advice(), RetryAdvice::Unknown, "{error}");
        }
    }
    proxy.heal();
    for outcome in commit_some(&store).await {
        outcome.unwrap().committed().unwrap();
    }
}
