//! Optimistic concurrency: every expectation against every kind of record, for every change.

use std::time::Duration;

use tidelock_store::{
    Bounds, Change, Commit, ExpectedRevision, Part, Record, RecordKey, RecordWrite, Slot, StoreExt,
    ViolationKind, ViolationReason, When, Written,
};

use crate::case::{World, cases};
use crate::sample::{commit, key, refused_whole, revision, value, violation};
use ExpectedRevision::{Absent, Any, Exists, Revision};
use ViolationKind::{Gone, Moved, Taken};

cases! { "records::expect":
    "REC-1" a_record_that_never_was_meets_any_and_absent,
    "REC-1" a_live_record_meets_any_exists_and_its_revision,
    "REC-1 REC-3" a_deleted_record_meets_any_and_absent,
    "REC-1 REC-5" an_expired_record_meets_any_and_absent,
}

/// The record before the change. Those that were written are at revision 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    Nothing,
    /// With the value 7.
    Live,
    Deleted,
    Expired,
}

impl Given {
    pub(crate) async fn make(self, world: &World, key: &RecordKey) {
        if self == Self::Nothing {
            return;
        }
        let put = RecordWrite::put(key, Any, value(7));
        commit(&*world.store, Commit::new().write(put.clone())).await;
        let second = match self {
            Self::Deleted => RecordWrite::delete(key, Any),
            Self::Expired => put.expiring(When::In(Duration::from_secs(1))),
            _ => put,
        };
        commit(&*world.store, Commit::new().write(second)).await;
        if self == Self::Expired {
            world.advance(Duration::from_secs(1)).await;
        }
    }

    pub(crate) fn slot(self, key: &RecordKey) -> Slot {
        match self {
            Self::Nothing => Slot::Absent,
            Self::Deleted | Self::Expired => Slot::Deleted(revision(2)),
            Self::Live => Slot::Live(Record {
                key: key.clone(),
                revision: revision(2),
                value: value(7),
                expires_at: None,
            }),
        }
    }

    /// The result of an accepted change.
    fn written(self, key: &RecordKey, change: &Change) -> Written {
        let before = self.slot(key).revision().map_or(0, tidelock_store::Revision::get);
        let counts = self == Self::Live || *change != Change::Delete;
        let after = if counts { before + 1 } else { before };
        let sum =
            matches!(change, Change::Add { .. }).then(|| if self == Self::Live { 10 } else { 3 });
        Written { key: key.clone(), revision: (after > 0).then(|| revision(after)), sum }
    }
}

fn changes() -> [(&'static str, Change); 3] {
    [
        ("put", Change::Put { value: value(9), expires: None }),
        ("delete", Change::Delete),
        ("add", Change::Add { delta: 3, within: Bounds::NONE, expires: None }),
    ]
}

/// Makes each change with each expectation: accepted where there is no kind of violation, refused
/// so where there is.
async fn judge(world: &World, given: Given, table: [(ExpectedRevision, Option<ViolationKind>); 6]) {
    let store = &*world.store;
    for (expected, kind) in table {
        for (verb, change) in changes() {
            let key = key(&format!("{verb} {given:?}, expecting {expected}"));
            given.make(world, &key).await;
            let write = Commit::new().write(RecordWrite {
                key: key.clone(),
                expected,
                change: change.clone(),
            });
            let Some(kind) = kind else {
                assert_eq!(commit(store, write).await.writes, [given.written(&key, &change)]);
                continue;
            };
            let conflict = refused_whole(store, write).await;
            let found = given.slot(&key);
            let reason =
                ViolationReason::Record { key: key.clone(), expected, found: found.clone() };
            assert_eq!(conflict, violation(Part::Write(0), reason));
            assert_eq!(conflict.first().reason.kind(), kind, "{key}");
            assert_eq!(store.get_one(&key).await.unwrap(), found);
        }
    }
}

async fn a_record_that_never_was_meets_any_and_absent(world: World) {
    judge(&world, Given::Nothing, of_no_record()).await;
}

async fn a_live_record_meets_any_exists_and_its_revision(world: World) {
    let table = [
        (Any, None),
        (Absent, Some(Taken)),
        (Exists, None),
        (Revision(revision(1)), Some(Moved)),
        (Revision(revision(2)), None),
        (Revision(revision(3)), Some(Moved)),
    ];
    judge(&world, Given::Live, table).await;
}

async fn a_deleted_record_meets_any_and_absent(world: World) {
    judge(&world, Given::Deleted, of_no_record()).await;
}

async fn an_expired_record_meets_any_and_absent(world: World) {
    judge(&world, Given::Expired, of_no_record()).await;
}

/// Not even the revision of the deletion matches: there is no record.
fn of_no_record() -> [(ExpectedRevision, Option<ViolationKind>); 6] {
    [
        (Any, None),
        (Absent, None),
        (Exists, Some(Gone)),
        (Revision(revision(1)), Some(Gone)),
        (Revision(revision(2)), Some(Gone)),
        (Revision(revision(3)), Some(Gone)),
    ]
}
