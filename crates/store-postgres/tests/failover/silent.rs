//! A primary that stops answering: its connections stay open, and no answer comes any more.

use tidelock_store::{LeaseToken, Renewal, Result, RetryAdvice, Store};
use tidelock_store_postgres::PostgresStore;

use crate::careful::{LONG, note, wake_and_lease};
use crate::ground::{append, soon};
use crate::pair::{Pair, url};

async fn renew(store: PostgresStore, lease: LeaseToken) -> Result<Vec<Renewal>> {
    store.renew(&[lease], LONG).await
}

/// Schedule 74. COMMIT-6: no call waits indefinitely for a server that was replaced. Commits in
/// flight have an unknown outcome; idempotent calls are retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_silent_primary_fails_once_it_was_replaced() {
    let pair = Pair::synchronous();
    let url = url(&[pair.proxy.port(), pair.standby.port()]) + "?connect_timeout_ms=2000";
    let store = PostgresStore::open(&url).await.unwrap();
    let before = note(&store, "before").await;
    let lease = wake_and_lease(&store, "kept", LONG).await;
    soon("a renewal", renew(store.clone(), lease.token())).await.unwrap();

    pair.proxy.stall();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(append("during", "during")).await }
    });
    let renewing = tokio::spawn(renew(store.clone(), lease.token()));
    pair.standby.promote().unwrap();

    let error = soon("the end of the wait", committing).await.unwrap().unwrap_err();
    assert_eq!(error.advice(), RetryAdvice::Unknown, "{error}");
    let renewed = soon("the renewal", renewing).await.unwrap().unwrap();
    assert!(matches!(renewed[..], [Renewal::Renewed(_)]), "{renewed:?}");
    assert!(note(&store, "after").await > before);
}
