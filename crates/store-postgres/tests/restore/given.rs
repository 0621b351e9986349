//! What a store gave out, before a copy of it was taken and after.

use tidelock_store::{Lease, Position, Store};
use tidelock_store_postgres::PostgresStore;

use crate::careful::{LONG, SHORT, assert_lease_lost, assert_rewound, lease, note, wake_and_lease};

/// A position, and a lease of the one item there is.
pub(crate) struct Given {
    position: Position,
    lease: Lease,
}

impl Given {
    /// What the copy will have.
    pub(crate) async fn before_the_copy(url: &str) -> Self {
        let store = PostgresStore::open(url).await.unwrap();
        let given = Self {
            lease: wake_and_lease(&store, "item", SHORT).await,
            position: note(&store, "before").await,
        };
        store.close().await.unwrap();
        given
    }

    /// What the copy will not have.
    pub(crate) async fn after_the_copy(url: &str) -> Self {
        let store = PostgresStore::open(url).await.unwrap();
        let given = Self::by(&store).await;
        store.close().await.unwrap();
        given
    }

    /// What a store that goes on from `kept` gives out. Of what others gave out since, it knows that it is lost.
    pub(crate) async fn by_the_copy(url: &str, kept: &Self, lost: &[Self]) -> Self {
        let store = PostgresStore::open(url).await.unwrap();
        for lost in lost {
            assert_rewound(&store, lost.position, kept.position).await;
            assert_eq!(assert_lease_lost(&store, &lost.lease).await, Some(kept.lease.fence));
        }
        let new = Self::by(&store).await;
        for lost in lost {
            assert!(new.position > lost.position && new.lease.fence > lost.lease.fence);
            assert_rewound(&store, lost.position, kept.position).await;
            assert_eq!(assert_lease_lost(&store, &lost.lease).await, Some(new.lease.fence));
        }
        store.close().await.unwrap();
        new
    }

    async fn by(store: &PostgresStore) -> Self {
        Self { lease: lease(store, "item", LONG).await, position: note(store, "after").await }
    }
}
