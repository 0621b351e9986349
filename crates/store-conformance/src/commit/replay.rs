//! Replay: a commit sent again under its id.

use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Bounds, Commit, CommitId, Committed, ExpectedRevision, ExpectedVersion,
    RecordWrite, Settlement, Slot, Store, StoreErrorKind, StoreExt, Wake, When, limits,
};

use crate::case::{World, cases};
use crate::sample::{
    LEASE, at_once, commit, event, events, everything, exact, failed, item, key, lease_one, mark,
    refused_whole, revision, stream, value, version, wake,
};

cases! { "commit::replay":
    "COMMIT-4" a_commit_of_every_kind_sent_again_writes_nothing,
    "COMMIT-4 REC-4" an_addition_sent_again_is_made_once,
    "COMMIT-4 REC-2" a_deletion_sent_again_is_made_once,
    "COMMIT-4 REC-1" a_writer_whose_reply_was_lost_recognizes_its_own_revision,
    "COMMIT-4" the_first_result_is_given_though_others_have_moved_on,
    "COMMIT-4 LEASE-5" the_first_result_is_given_though_the_lease_was_lost_since,
    "COMMIT-4" a_commit_sent_again_over_another_handle_is_known,
    "COMMIT-4" a_commit_sent_twice_at_once_is_made_once,
    "COMMIT-4" another_commit_under_the_same_id_is_a_mismatch,
    "COMMIT-4" a_refused_commit_is_not_remembered,
    "COMMIT-4" a_failed_commit_is_not_remembered,
    "COMMIT-4" a_commit_is_remembered_for_seven_days,
    "COMMIT-4" a_commit_is_forgotten_after_seven_days,
    "COMMIT-4" without_an_id_the_same_commit_is_another,
    "COMMIT-4 REC-4" a_refund_sent_again_after_the_window_goes_once_to_its_window,
}

/// Adds one to the record "n", under an id.
fn add(id: CommitId) -> Commit {
    Commit::new().with_id(id).write(RecordWrite::add(&key("n"), 1, Bounds::NONE))
}

async fn count(store: &dyn Store) -> i64 {
    store.get_one(&key("n")).await.unwrap().live().map_or(0, |record| record.value.to().unwrap())
}

/// Sends it again, and checks that nothing was written.
async fn again(store: &dyn Store, sent: Commit) -> Committed {
    let before = everything(store).await;
    let done = commit(store, sent).await;
    assert_eq!(everything(store).await, before, "a replay writes nothing");
    done
}

async fn mismatch(store: &dyn Store, other: Commit) {
    let error = failed(store, other).await;
    assert_eq!(error.kind(), StoreErrorKind::IdempotencyMismatch, "{error}");
}

async fn a_commit_of_every_kind_sent_again_writes_nothing(world: World) {
    let store = &*world.store;
    let closed = Append::new(&stream("closed"), ExpectedVersion::NoStream, events(2)).and_close();
    commit(store, Commit::new().with_append(closed)).await;
    wake(store, "i", 1).await;
    let token = lease_one(store, "anna").await.token();
    let all = Commit::new()
        .with_id(CommitId::fresh())
        .append(&stream("s"), ExpectedVersion::NoStream, events(2))
        .with_append(Append::new(&stream("closed"), exact(2), events(1)))
        .write(
            RecordWrite::put(&key("k"), ExpectedRevision::Absent, value(1))
                .expiring(When::In(LEASE * 10)),
        )
        .write(RecordWrite::add(&key("n"), 5, Bounds::at_most(5)))
        .write(RecordWrite::delete(&key("none"), ExpectedRevision::Absent))
        .wake(Wake::to_mark(item("woken"), mark(3)))
        .settle(Settlement::ack(token.clone(), mark(1)))
        .fenced_by(token)
        .guard_stream(&stream("s"), ExpectedVersion::NoStream)
        .guard_record(&key("k"), ExpectedRevision::Absent)
        .trim(&stream("closed"), version(2), AfterTrim::Reopen);

    let first = commit(store, all.clone()).await;
    world.advance(Duration::from_secs(5)).await;
    for _ in 0..2 {
        assert_eq!(again(store, all.clone()).await, first);
    }
}

async fn an_addition_sent_again_is_made_once(world: World) {
    let (store, id) = (&*world.store, CommitId::fresh());
    let first = commit(store, add(id)).await;
    assert_eq!(first.writes[0].sum, Some(1));
    assert_eq!(again(store, add(id)).await, first);
    assert_eq!(count(store).await, 1);
}

async fn a_deletion_sent_again_is_made_once(world: World) {
    let (store, key) = (&*world.store, key("k"));
    let put = || Commit::new().write(RecordWrite::put(&key, ExpectedRevision::Absent, value(1)));
    commit(store, put()).await;
    let delete = Commit::new()
        .with_id(CommitId::fresh())
        .write(RecordWrite::delete(&key, ExpectedRevision::Exists));
    let first = commit(store, delete.clone()).await;
    commit(store, put()).await;
    assert_eq!(again(store, delete).await, first);
    assert_eq!(store.get_one(&key).await.unwrap().revision(), Some(revision(3)));
}

/// Schedule 56.
async fn a_writer_whose_reply_was_lost_recognizes_its_own_revision(world: World) {
    let (store, key) = (&*world.store, key("k"));
    commit(store, Commit::new().write(RecordWrite::put(&key, ExpectedRevision::Absent, value(1))))
        .await;
    let swap = |number| {
        let expected = ExpectedRevision::Revision(revision(1));
        Commit::new().write(RecordWrite::put(&key, expected, value(number)))
    };
    let mine = swap(2).with_id(CommitId::fresh());
    commit(store, mine.clone()).await;

    let retried = again(&*world.another().await, mine).await;
    assert_eq!(retried.writes[0].revision, Some(revision(2)), "the newer revision is its own");
    refused_whole(store, swap(3).with_id(CommitId::fresh())).await;
}

async fn the_first_result_is_given_though_others_have_moved_on(world: World) {
    let store = &*world.store;
    let mine = Commit::new()
        .with_id(CommitId::fresh())
        .append(&stream("s"), ExpectedVersion::NoStream, events(2))
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Absent, value(1)));
    let first = commit(store, mine.clone()).await;

    let other = world.another().await;
    let closing = Append::new(&stream("s"), exact(2), events(3)).and_close();
    commit(&*other, Commit::new().with_append(closing)).await;
    commit(&*other, Commit::new().trim(&stream("s"), version(5), AfterTrim::StayClosed)).await;
    commit(&*other, Commit::new().write(RecordWrite::delete(&key("k"), ExpectedRevision::Exists)))
        .await;

    assert_eq!(again(store, mine).await, first);
    assert_eq!(store.get_one(&key("k")).await.unwrap(), Slot::Deleted(revision(2)));
}

async fn the_first_result_is_given_though_the_lease_was_lost_since(world: World) {
    let store = &*world.store;
    wake(store, "i", 2).await;
    let token = lease_one(store, "anna").await.token();
    let mine = add(CommitId::fresh()).fenced_by(token.clone());
    let first = commit(store, mine.clone()).await;
    world.advance(LEASE).await;
    lease_one(&*world.another().await, "bert").await;

    assert_eq!(again(store, mine).await, first);
    refused_whole(store, add(CommitId::fresh()).fenced_by(token)).await;
}

async fn a_commit_sent_again_over_another_handle_is_known(world: World) {
    let id = CommitId::fresh();
    let first = commit(&*world.store, add(id)).await;
    assert_eq!(again(&*world.another().await, add(id)).await, first);
}

async fn a_commit_sent_twice_at_once_is_made_once(world: World) {
    for round in 1..=20 {
        let id = CommitId::fresh();
        let [one, other] = at_once(&world, add(id), add(id)).await;
        assert_eq!(one, other);
        assert_eq!(count(&*world.store).await, round);
    }
}

async fn another_commit_under_the_same_id_is_a_mismatch(world: World) {
    let (store, id) = (&*world.store, CommitId::fresh());
    let new = event(1);
    let mine = || add(id).append(&stream("s"), ExpectedVersion::Any, [new.clone()]);
    commit(store, mine()).await;

    mismatch(store, add(id)).await;
    mismatch(store, mine().wake(Wake::to_mark(item("i"), mark(1)))).await;
    mismatch(store, mine().guard_record(&key("k"), ExpectedRevision::Any)).await;
    mismatch(store, add(id).append(&stream("s"), ExpectedVersion::Any, [event(1)])).await;
    mismatch(store, add(id).append(&stream("s"), ExpectedVersion::Exists, [new.clone()])).await;
    let two = Commit::new().with_id(id).write(RecordWrite::add(&key("n"), 2, Bounds::NONE));
    mismatch(store, two.append(&stream("s"), ExpectedVersion::Any, [new.clone()])).await;
    assert_eq!(count(store).await, 1);
    again(store, mine()).await;
}

async fn a_refused_commit_is_not_remembered(world: World) {
    let (store, id) = (&*world.store, CommitId::fresh());
    let mine = || add(id).guard_record(&key("door"), ExpectedRevision::Exists);
    refused_whole(store, mine()).await;
    refused_whole(store, mine()).await;
    let door = RecordWrite::put(&key("door"), ExpectedRevision::Absent, value(1));
    commit(store, Commit::new().write(door)).await;
    commit(store, mine()).await;
    assert_eq!(count(store).await, 1, "it is judged again each time");

    let id = CommitId::fresh();
    refused_whole(store, add(id).guard_record(&key("none"), ExpectedRevision::Exists)).await;
    commit(store, add(id)).await;
    assert_eq!(count(store).await, 2, "the id of a refused commit is free");
}

async fn a_failed_commit_is_not_remembered(world: World) {
    let (store, id, new) = (&*world.store, CommitId::fresh(), event(1));
    commit(store, Commit::new().append(&stream("s"), ExpectedVersion::Any, [new.clone()])).await;
    mismatch(store, add(id).append(&stream("other"), ExpectedVersion::Any, [new])).await;
    assert_eq!(failed(store, Commit::new().with_id(id)).await.kind(), StoreErrorKind::Invalid);
    commit(store, add(id)).await;
    assert_eq!(count(store).await, 1);
}

async fn a_commit_is_remembered_for_seven_days(world: World) {
    let (store, id) = (&*world.store, CommitId::fresh());
    let first = commit(store, add(id)).await;
    world.advance(limits::COMMIT_MEMORY - Duration::from_secs(1)).await;
    commit(store, add(CommitId::fresh())).await;
    assert_eq!(again(store, add(id)).await, first);
}

async fn a_commit_is_forgotten_after_seven_days(world: World) {
    let (store, id) = (&*world.store, CommitId::fresh());
    commit(store, add(id)).await;
    world.advance(limits::COMMIT_MEMORY + Duration::from_secs(1)).await;
    assert_eq!(commit(store, add(id)).await.writes[0].sum, Some(2));

    world.advance(limits::COMMIT_MEMORY + Duration::from_secs(1)).await;
    let another = Commit::new().with_id(id).write(RecordWrite::add(&key("n"), 5, Bounds::NONE));
    assert_eq!(commit(store, another).await.writes[0].sum, Some(7), "the id is free for anything");
}

async fn without_an_id_the_same_commit_is_another(world: World) {
    let store = &*world.store;
    let same = || Commit::new().write(RecordWrite::add(&key("n"), 1, Bounds::NONE));
    commit(store, same()).await;
    commit(store, same()).await;
    assert_eq!(count(store).await, 2);
}

/// Schedule 64: a quota is a counter per window, and a refund names the window that was charged.
async fn a_refund_sent_again_after_the_window_goes_once_to_its_window(world: World) {
    let (store, window) = (&*world.store, Duration::from_secs(3600));
    let quota = |name: &str, delta| {
        let counter = RecordWrite::add(&key(name), delta, Bounds::between(0, 3));
        Commit::new().write(counter.expiring(When::In(window * 2)))
    };
    commit(store, quota("mail/monday", 3)).await;
    let refund = quota("mail/monday", -1).with_id(CommitId::fresh());
    let first = commit(store, refund.clone()).await;
    assert_eq!(first.writes[0].sum, Some(2));

    world.advance(window).await;
    commit(store, quota("mail/tuesday", 3)).await;
    assert_eq!(again(&*world.another().await, refund).await, first);

    let sums = store.get(&["mail/monday", "mail/tuesday"].map(key)).await.unwrap();
    let sums: Vec<_> = sums.into_iter().map(|slot| slot.into_live().unwrap().value).collect();
    assert_eq!(sums, [value(2), value(3)]);
}
