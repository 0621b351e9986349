//! A process that leases items and does their work, or is interrupted before.

use std::time::Duration;

use serde_json::json;
use tidelock_store::{
    Commit, CommitId, CommitOutcome, ExpectedVersion, Lease, LeaseRequest, NewEvent, QueueName,
    Settlement, Store, Topic, ViolationKind, WorkerName,
};
use tidelock_store_sqlite::SqliteStore;
use tokio::time::timeout;

use super::journal::{HELD, HOLDING, send};
use super::phase::Phase;
use super::{LEASE, done_stream};
use crate::worker::{Part, order, say};
use crate::{block_on, open};

/// How long to wait for a signal before polling.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Arguments: file, name, how many leases are granted before it is interrupted.
pub(crate) fn lessee(part: &Part) {
    let (store, name, mut safe) = (open(part.argument(0)), part.argument(1), part.number(2));
    let queue = QueueName::new("work").unwrap();
    let request = LeaseRequest::new(&queue, &WorkerName::new(name).unwrap(), LEASE, 2);
    block_on(async {
        let mut signal = store.signal(Topic::Queue(queue));
        loop {
            let draining = Phase::read(&store).await >= Phase::Drain;
            let leased = store.lease(request.clone()).await.unwrap();
            for lease in &leased.leases {
                say(format!("{name} {HELD} {}", serde_json::to_string(lease).unwrap()));
            }
            let granted = leased.leases.len() as u64;
            if granted >= safe {
                return be_late(&store, name, &leased.leases).await;
            }
            safe -= granted;
            for lease in &leased.leases {
                let _ = settle(&store, name, lease).await;
            }
            if granted == 0 && draining && leased.next_due.is_none() {
                return;
            }
            if granted == 0 {
                // Nothing to do if it does not come.
                let _ = timeout(LOOK_AGAIN, signal.wait()).await;
            }
        }
    });
}

/// Waits while it holds its leases. Most are killed in the meantime; one that continues has lost
/// them and is refused.
async fn be_late(store: &SqliteStore, name: &str, leases: &[Lease]) {
    say(format!("{name} {HOLDING} leases"));
    order();
    for lease in leases {
        let CommitOutcome::Conflict(conflict) = settle(store, name, lease).await else {
            panic!("{name} wrote under a lease that it had lost: {lease:?}");
        };
        assert!(conflict.has(ViolationKind::LeaseLost), "{conflict}");
    }
}

/// Records what was done, in the commit that ends the lease.
async fn settle(store: &SqliteStore, name: &str, lease: &Lease) -> CommitOutcome {
    let done = json!({ "from": lease.at, "to": lease.mark, "fence": lease.fence });
    let commit = Commit::new()
        .with_id(CommitId::fresh())
        .append(
            &done_stream(&lease.item),
            ExpectedVersion::Any,
            [NewEvent::of("done", &done).unwrap()],
        )
        .settle(Settlement::ack(lease.token(), lease.mark));
    send(name, store, &commit).await
}
