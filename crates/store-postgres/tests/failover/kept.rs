//! Synchronous replication: nothing that was acknowledged is lost.

use tidelock_store::{Commit, Renewal, Store};
use tidelock_store_postgres::PostgresStore;

use crate::audit::Audit;
use crate::careful::{LONG, SHORT, assert_lease_lost, commit, lease, note, wake_and_lease};
use crate::load::Load;
use crate::pair::{Pair, url};

const CALLERS: usize = 8;

/// Enough for every caller to have a commit in flight.
const MANY: usize = 200;

/// Schedules 74 and 77; COMMIT-5, COMMIT-6, LOG-2 and LOG-7. The URL names both servers, and the
/// clients are not told.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_primary_dies_under_load() {
    let pair = Pair::synchronous();
    let ports = [pair.primary.port(), pair.standby.port()];
    let store = PostgresStore::open(&url(&ports)).await.unwrap();
    let mut load = Load::start(&store, CALLERS);
    load.wait_for(MANY).await;

    load.hold();
    pair.fail_over();
    load.go_on();
    load.wait_for(MANY).await;
    let journals = load.stop().await;

    for journal in &journals {
        assert!(journal.failed + journal.unknown > 0, "{} met no error", journal.stream);
    }
    assert_eq!(Audit::of(&store, &journals).await, Audit::default());
}

/// Schedules 74 and 77; LEASE-2, LEASE-5 and LOG-7.
#[tokio::test(flavor = "multi_thread")]
async fn positions_and_fences_go_on_above_all_that_were_given_out() {
    let pair = Pair::synchronous();
    let store = pair.open().await;
    let noted = note(&store, "before").await;
    let kept = wake_and_lease(&store, "kept", LONG).await;
    let lapsed = wake_and_lease(&store, "lapsed", SHORT).await;
    pair.fail_over();

    assert!(note(&store, "after").await > noted);
    let taken = lease(&store, "lapsed", LONG).await;
    assert!(taken.fence > lapsed.fence.max(kept.fence));
    assert_eq!(assert_lease_lost(&store, &lapsed).await, Some(taken.fence));

    let renewed = store.renew(&[kept.token()], LONG).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Renewed(_)]), "no other worker had it: {renewed:?}");
    commit(&store, Commit::new().settle(kept.ack())).await;
}
