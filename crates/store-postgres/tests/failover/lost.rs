//! Asynchronous replication: what was acknowledged can be lost, and a caller that relies on it gets
//! an error.

use tidelock_store::{
    Commit, ExpectedRevision, Lease, Position, RawJson, RecordKey, RecordWrite, Revision,
};
use tidelock_store_postgres::PostgresStore;

use crate::audit::Audit;
use crate::careful::{
    LONG, SHORT, assert_lease_lost, assert_rewound, commit, lease, note, read_after, wake_and_lease,
};
use crate::load::Load;
use crate::pair::Pair;

/// The positive control of `nothing_acknowledged_is_lost_when_the_primary_dies_under_load`: the
/// same callers, judged by the same audit.
#[tokio::test(flavor = "multi_thread")]
async fn an_asynchronous_standby_loses_what_was_acknowledged() {
    let pair = Pair::asynchronous();
    let store = pair.open().await;
    let mut load = Load::start(&store, 4);
    load.wait_for(50).await;
    pair.cut_off_standby();
    load.wait_for(50).await;
    let journals = load.stop().await;

    pair.fail_over();
    let audit = Audit::of(&store, &journals).await;
    assert!(audit.lost >= 50 && audit.miscounted > 0, "{audit:?}");
    assert_eq!((audit.moved, audit.unasked, audit.out_of_line), (0, 0, 0), "{audit:?}");
}

/// Schedules 74, 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_relies_on_what_was_lost_gets_an_error_whenever_it_returns() {
    let loss = Loss::new().await;
    let [early, late] = &loss.stores;
    assert_rewound(early, loss.lost, loss.kept).await;
    assert_eq!(assert_lease_lost(early, &loss.lost_lease).await, Some(loss.kept_lease.fence));

    let (position, lease) = (note(early, "after").await, lease(early, "item", LONG).await);
    assert!(
        position > loss.lost && lease.fence > loss.lost_lease.fence,
        "they were given out before"
    );
    assert!(write(early).await > loss.lost_revision, "it was given out before");
    for store in [early, late, &loss.pair.open().await] {
        assert_rewound(store, loss.lost, loss.kept).await;
        assert_eq!(assert_lease_lost(store, &loss.lost_lease).await, Some(lease.fence));
        let there = read_after(store, loss.kept).await.unwrap();
        assert_eq!(there.iter().map(|event| event.position).collect::<Vec<_>>(), [position]);
    }
}

/// A failover in which the last event and the last lease were lost.
struct Loss {
    pair: Pair,
    /// Handles that were open all the time, and have not been used since.
    stores: [PostgresStore; 2],
    kept: Position,
    lost: Position,
    /// Two leases of one item.
    kept_lease: Lease,
    lost_lease: Lease,
    lost_revision: Revision,
}

impl Loss {
    async fn new() -> Self {
        let pair = Pair::asynchronous();
        let stores = [pair.open().await, pair.open().await];
        let store = &stores[0];
        let kept_lease = wake_and_lease(store, "item", SHORT).await;
        let kept = note(store, "kept").await;
        write(store).await;
        pair.wait_until_standby_has_all();
        pair.cut_off_standby();
        let lost_lease = lease(store, "item", LONG).await;
        let lost = note(store, "lost").await;
        let lost_revision = write(store).await;
        pair.fail_over();
        Self { pair, stores, kept, lost, kept_lease, lost_lease, lost_revision }
    }
}

/// Writes the only record.
async fn write(store: &PostgresStore) -> Revision {
    let key = RecordKey::new("record").unwrap();
    let write = RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&1).unwrap());
    commit(store, Commit::new().write(write)).await.writes[0].revision.unwrap()
}
