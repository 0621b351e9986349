//! The numbers that a store gave out, before a copy of it was taken and after.

use tidelock_store::{
    Commit, ExpectedRevision, Lease, Position, RawJson, RecordKey, RecordWrite, Revision, Slot,
    Store, StoreExt,
};
use tidelock_store_postgres::PostgresStore;

use crate::careful::{
    LONG, SHORT, assert_lease_lost, assert_rewound, commit, lease, note, wake_and_lease,
};

/// A position, a lease of the only item, and the revision of the only record.
pub(crate) struct Given {
    position: Position,
    lease: Lease,
    revision: Revision,
}

impl Given {
    /// What the copy will have.
    pub(crate) async fn before_the_copy(url: &str) -> Self {
        let store = PostgresStore::open(url).await.unwrap();
        let given = Self {
            lease: wake_and_lease(&store, "item", SHORT).await,
            position: note(&store, "before").await,
            revision: put(&store).await,
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

    /// What a store that continues from `kept` gives out. It knows that what others gave out since
    /// is lost.
    pub(crate) async fn by_the_copy(url: &str, kept: &Self, lost: &[Self]) -> Self {
        let store = PostgresStore::open(url).await.unwrap();
        for lost in lost {
            assert_rewound(&store, lost.position, kept.position).await;
            assert_eq!(assert_lease_lost(&store, &lost.lease).await, Some(kept.lease.fence));
            assert_refused(&store, lost.revision).await;
        }
        let new = Self::by(&store).await;
        for lost in lost {
            assert!(new.position > lost.position && new.lease.fence > lost.lease.fence);
            assert!(new.revision > lost.revision, "{} came after {}", new.revision, lost.revision);
            assert_refused(&store, lost.revision).await;
            assert_rewound(&store, lost.position, kept.position).await;
            assert_eq!(assert_lease_lost(&store, &lost.lease).await, Some(new.lease.fence));
        }
        store.close().await.unwrap();
        new
    }

    async fn by(store: &PostgresStore) -> Self {
        Self {
            lease: lease(store, "item", LONG).await,
            position: note(store, "after").await,
            revision: put(store).await,
        }
    }
}

fn record() -> RecordKey {
    RecordKey::new("record").unwrap()
}

/// Writes the record, with a remembered result, and checks that the record is at the reported
/// revision.
async fn put(store: &PostgresStore) -> Revision {
    let write = RecordWrite::put(&record(), ExpectedRevision::Any, RawJson::new(&1).unwrap());
    let id = tidelock_store::CommitId::fresh();
    let told =
        commit(store, Commit::new().with_id(id).write(write.clone())).await.writes[0].revision;
    assert_eq!(
        commit(store, Commit::new().with_id(id).write(write)).await.writes[0].revision,
        told
    );
    assert_eq!(store.get_one(&record()).await.unwrap().revision(), told);
    told.unwrap()
}

/// A commit that relies on a lost revision is refused.
async fn assert_refused(store: &PostgresStore, lost: Revision) {
    let stale =
        RecordWrite::put(&record(), ExpectedRevision::Revision(lost), RawJson::new(&2).unwrap());
    let conflict = store.commit(Commit::new().write(stale)).await.unwrap().conflict();
    assert!(conflict.is_some(), "revision {lost} is there again");
    assert!(matches!(store.get_one(&record()).await.unwrap(), Slot::Live(_)));
}
