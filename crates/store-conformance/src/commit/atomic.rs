//! Atomicity: each kind of part that fails, combined with each kind that would have held.
//!
//! A [`Scene`] knows for every kind of part one that holds and one that does not. A case pairs
//! them, and then commits the good ones alone to show that they were indeed good.

use tidelock_store::{
    AfterTrim, Append, Commit, Conflict, ExpectedRevision, ExpectedVersion, Item, LeaseToken, Part,
    RecordWrite, SettleKind, Settlement, Slot, Store, StoreExt, StreamState, Violation,
    ViolationReason, Wake,
};

use crate::case::{World, cases};
use crate::items::{idle, item_now};
use crate::sample::{
    LEASE, commit, event, events, everything, exact, item, key, lease_one, mark, refused_whole,
    revision, stream, value, version, violation, wake,
};

cases! { "commit::atomic":
    "COMMIT-1" parts_of_every_kind_are_written_together,
    "COMMIT-1 LOG-1" an_append_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 REC-1" a_write_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 LEASE-5" a_settlement_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 LEASE-5" a_fence_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 LOG-1" a_guard_of_a_stream_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 REC-1" a_guard_of_a_record_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 LOG-9" a_trim_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 LEASE-12" a_restore_that_fails_takes_every_other_part_with_it,
    "COMMIT-1 COMMIT-2" every_part_that_fails_is_named_in_the_order_of_the_fields,
    "COMMIT-1 COMMIT-2" only_the_parts_that_fail_are_named,
}

/// The kinds of parts, in the order of a commit's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Append,
    Write,
    Wake,
    Settlement,
    Fence,
    StreamGuard,
    RecordGuard,
    Trim,
    Restore,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Append,
        Self::Write,
        Self::Wake,
        Self::Settlement,
        Self::Fence,
        Self::StreamGuard,
        Self::RecordGuard,
        Self::Trim,
        Self::Restore,
    ];

    /// A wake always holds.
    const CAN_FAIL: [Self; 8] = [
        Self::Append,
        Self::Write,
        Self::Settlement,
        Self::Fence,
        Self::StreamGuard,
        Self::RecordGuard,
        Self::Trim,
        Self::Restore,
    ];

    /// The last part of this kind.
    fn last_of(self, commit: &Commit) -> Part {
        match self {
            Self::Append => Part::Append(commit.appends.len() - 1),
            Self::Write => Part::Write(commit.writes.len() - 1),
            Self::Wake => unreachable!("a wake never fails"),
            Self::Settlement => Part::Settlement(commit.settlements.len() - 1),
            Self::Fence => Part::Fence(commit.fences.len() - 1),
            Self::StreamGuard | Self::RecordGuard => Part::Guard(commit.guards.len() - 1),
            Self::Trim => Part::Trim(commit.trims.len() - 1),
            Self::Restore => Part::Restore(commit.restores.len() - 1),
        }
    }
}

/// Two open streams and a closed one at version 1, two records at revision 1, a current lease and a
/// lost one.
struct Scene {
    held: LeaseToken,
    lost: LeaseToken,
    /// The item of the lost lease, leased again.
    taken: Item,
}

impl Scene {
    async fn make(world: &World) -> Self {
        let store = &*world.store;
        for name in ["good", "bad"] {
            let put = RecordWrite::put(&key(name), ExpectedRevision::Absent, value(1));
            commit(
                store,
                Commit::new()
                    .append(&stream(name), ExpectedVersion::NoStream, events(1))
                    .write(put),
            )
            .await;
        }
        let closed =
            Append::new(&stream("closed"), ExpectedVersion::NoStream, events(1)).and_close();
        commit(store, Commit::new().with_append(closed)).await;
        wake(store, "taken", 1).await;
        let lost = lease_one(store, "anna").await.token();
        world.advance(LEASE).await;
        lease_one(store, "bert").await;
        wake(store, "held", 1).await;
        let held = lease_one(store, "anna").await.token();
        Self { held, lost, taken: item_now(store, "taken").await }
    }

    /// Adds a part of this kind that holds.
    fn good(&self, commit: Commit, kind: Kind) -> Commit {
        let (name, record) = (stream("good"), key("good"));
        let first = ExpectedRevision::Revision(revision(1));
        match kind {
            Kind::Append => commit.append(&name, exact(1), [event(2)]),
            Kind::Write => commit.write(RecordWrite::put(&record, first, value(2))),
            Kind::Wake => commit.wake(Wake::to_mark(item("new"), mark(5))),
            Kind::Settlement => commit.settle(Settlement::ack(self.held.clone(), mark(1))),
            Kind::Fence => commit.fenced_by(self.held.clone()),
            Kind::StreamGuard => commit.guard_stream(&name, exact(1)),
            Kind::RecordGuard => commit.guard_record(&record, first),
            Kind::Trim => commit.trim(&stream("closed"), version(1), AfterTrim::Reopen),
            Kind::Restore => commit.restore(Item { mark: mark(4), ..idle("restored") }),
        }
    }

    /// Adds a part of this kind that fails.
    fn bad(&self, commit: Commit, kind: Kind) -> Commit {
        let (name, record) = (stream("bad"), key("bad"));
        match kind {
            Kind::Append => commit.append(&name, exact(9), [event(2)]),
            Kind::Write => {
                commit.write(RecordWrite::put(&record, ExpectedRevision::Absent, value(2)))
            }
            Kind::Wake => unreachable!("a wake never fails"),
            Kind::Settlement => commit.settle(Settlement::ack(self.lost.clone(), mark(1))),
            Kind::Fence => commit.fenced_by(self.lost.clone()),
            Kind::StreamGuard => commit.guard_stream(&name, ExpectedVersion::NoStream),
            Kind::RecordGuard => commit.guard_record(&record, ExpectedRevision::Absent),
            Kind::Trim => commit.trim(&name, version(1), AfterTrim::StayClosed),
            Kind::Restore => commit.restore(idle("taken")),
        }
    }

    /// Why it fails.
    async fn reason(&self, store: &dyn Store, kind: Kind) -> ViolationReason {
        let (stream, found) = (stream("bad"), StreamState::Open(version(1)));
        match kind {
            Kind::Append => ViolationReason::Stream { stream, expected: exact(9), found },
            Kind::StreamGuard => {
                ViolationReason::Stream { stream, expected: ExpectedVersion::NoStream, found }
            }
            Kind::Trim => ViolationReason::Untrimmable { stream, through: version(1), found },
            Kind::Write | Kind::RecordGuard => ViolationReason::Record {
                key: key("bad"),
                expected: ExpectedRevision::Absent,
                found: store.get_one(&key("bad")).await.unwrap(),
            },
            Kind::Settlement | Kind::Fence => ViolationReason::LeaseLost {
                lease: self.lost.clone(),
                found: Some(Box::new(self.taken.clone())),
            },
            Kind::Restore => ViolationReason::Item { found: Box::new(self.taken.clone()) },
            Kind::Wake => unreachable!("a wake never fails"),
        }
    }

    fn all_good(&self, commit: Commit) -> Commit {
        Kind::ALL.into_iter().fold(commit, |commit, kind| self.good(commit, kind))
    }
}

/// Commits a part that fails with each kind that holds, before it and after it, and with all of
/// them.
async fn takes_all_with_it(world: &World, failing: Kind) {
    let (scene, store) = (Scene::make(world).await, &*world.store);
    let reason = scene.reason(store, failing).await;
    for present in Kind::ALL {
        let good_first = scene.bad(scene.good(Commit::new(), present), failing);
        let expected = violation(failing.last_of(&good_first), reason.clone());
        assert_eq!(
            refused_whole(store, good_first).await,
            expected,
            "{failing:?} after {present:?}"
        );

        let bad_first = scene.bad(Commit::new(), failing);
        let expected = violation(failing.last_of(&bad_first), reason.clone());
        let bad_first = scene.good(bad_first, present);
        assert_eq!(
            refused_whole(store, bad_first).await,
            expected,
            "{failing:?} before {present:?}"
        );
    }
    let all = scene.bad(scene.all_good(Commit::new()), failing);
    let expected = violation(failing.last_of(&all), reason);
    assert_eq!(refused_whole(store, all).await, expected, "{failing:?} with all");
    assert_all_were_good(store, &scene).await;
}

/// Whatever was refused beside something bad is accepted without it, and all of it is there.
async fn assert_all_were_good(store: &dyn Store, scene: &Scene) {
    let done = commit(store, scene.all_good(Commit::new())).await;
    assert_eq!((done.appends[0].version, done.writes[0].revision), (version(2), Some(revision(2))));

    let after = everything(store).await;
    let state = |name| after.heads.iter().find(|head| head.stream == stream(name)).unwrap().state;
    assert_eq!(state("good"), StreamState::Open(version(2)));
    assert_eq!(state("closed"), StreamState::Open(version(1)), "trimmed and open again");
    assert_eq!(after.events.len(), 3, "one was appended and one trimmed");
    let record = store.get_one(&key("good")).await.unwrap();
    assert!(matches!(record, Slot::Live(record) if record.value == value(2)));
    assert_eq!(item_now(store, "new").await.mark, mark(5));
    assert_eq!(item_now(store, "restored").await.mark, mark(4));
    let held = item_now(store, "held").await;
    assert_eq!((held.settled, held.at, held.holder), (Some(SettleKind::Ack), mark(1), None));
}

async fn parts_of_every_kind_are_written_together(world: World) {
    let scene = Scene::make(&world).await;
    assert_all_were_good(&*world.store, &scene).await;
}

async fn an_append_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Append).await;
}

async fn a_write_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Write).await;
}

async fn a_settlement_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Settlement).await;
}

async fn a_fence_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Fence).await;
}

async fn a_guard_of_a_stream_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::StreamGuard).await;
}

async fn a_guard_of_a_record_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::RecordGuard).await;
}

async fn a_trim_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Trim).await;
}

async fn a_restore_that_fails_takes_every_other_part_with_it(world: World) {
    takes_all_with_it(&world, Kind::Restore).await;
}

async fn every_part_that_fails_is_named_in_the_order_of_the_fields(world: World) {
    let (scene, store) = (Scene::make(&world).await, &*world.store);
    let mut violations = Vec::new();
    let mut all_bad = Commit::new();
    for kind in Kind::CAN_FAIL {
        all_bad = scene.bad(all_bad, kind);
        violations.push(Violation {
            part: kind.last_of(&all_bad),
            reason: scene.reason(store, kind).await,
        });
    }
    let backwards =
        [Kind::Restore, Kind::Trim, Kind::Fence, Kind::Settlement, Kind::Write, Kind::Append];
    let guards = [Kind::StreamGuard, Kind::RecordGuard];
    let backwards =
        backwards.into_iter().chain(guards).fold(Commit::new(), |c, kind| scene.bad(c, kind));

    for commit in [all_bad, backwards] {
        assert_eq!(refused_whole(store, commit).await, Conflict { violations: violations.clone() });
    }
}

async fn only_the_parts_that_fail_are_named(world: World) {
    let store = &*world.store;
    let put = |name: &str| RecordWrite::put(&key(name), ExpectedRevision::Absent, value(1));
    commit(store, Commit::new().write(put("b")).write(put("d"))).await;

    let some_taken =
        ["a", "b", "c", "d"].into_iter().fold(Commit::new(), |c, name| c.write(put(name)));
    let conflict = refused_whole(store, some_taken).await;
    let parts: Vec<_> = conflict.violations.iter().map(|violation| violation.part).collect();
    assert_eq!(parts, [Part::Write(1), Part::Write(3)]);
    assert_eq!(store.get_one(&key("a")).await.unwrap(), Slot::Absent);
}
