//! Signals: hints that something changed, so that waiting is not polling.
//!
//! No promise says that a signal comes from another process, so these cases wait on the handle
//! through which they commit. The timeouts are there only so that a signal that never comes fails
//! the case instead of hanging it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use tidelock_store::{
    Adjustment, ChangeHint, Commit, ExpectedRevision, ExpectedVersion, ItemFilter, RecordWrite,
    Settlement, StoreExt, Topic, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{leased, secs, settle};
use crate::sample::{commit, event, item, key, mark, queue, refused, stream, value, wake};

cases! { "signals":
    "LOG-7" an_append_signals_the_log_and_nothing_else,
    "REC-1" a_write_signals_its_record_and_nothing_else,
    "LEASE-3" a_wake_signals_its_queue_and_nothing_else,
    "LEASE-3" a_timer_signals_its_queue_before_it_is_due,
    "LEASE-8" an_item_that_can_be_leased_again_signals_its_queue,
    "LEASE-10" an_unblocked_item_signals_its_queue,
    "LEASE-3" what_came_between_taking_the_signal_and_waiting_is_not_missed,
    "LEASE-3" what_came_between_two_waits_is_not_missed,
    "REC-1" a_waiter_that_arrives_during_a_commit_is_notified,
    "COMMIT-1" a_refused_commit_signals_nothing,
}

/// Waits until the signal comes.
async fn heard(signal: &mut ChangeHint) {
    tokio::time::timeout(secs(60), signal.wait()).await.expect("the signal comes");
}

/// Whether nothing has been signalled so far.
fn is_quiet(signal: &mut ChangeHint) -> bool {
    pin!(signal.wait()).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// A signal for the log, one for the record "k" and one for the queue "q", and unrelated ones.
struct Signals {
    log: ChangeHint,
    record: ChangeHint,
    queue: ChangeHint,
    strangers: [ChangeHint; 2],
}

impl Signals {
    fn of(world: &World) -> Self {
        let signal = |topic| world.store.signal(topic);
        Self {
            log: signal(Topic::Log),
            record: signal(Topic::Record(key("k"))),
            queue: signal(Topic::Queue(queue("q"))),
            strangers: [signal(Topic::Record(key("other"))), signal(Topic::Queue(queue("other")))],
        }
    }

    fn all_quiet(&mut self) -> bool {
        let Self { log, record, queue, strangers } = self;
        [log, record, queue].into_iter().chain(strangers).all(is_quiet)
    }
}

fn append() -> Commit {
    Commit::new().append(&stream("s"), ExpectedVersion::Any, [event(1)])
}

async fn a_waiter_that_arrives_during_a_commit_is_notified(world: World) {
    for round in 0..300 {
        let (store, key) = (world.store.clone(), key(&format!("{round}")));
        let put = Commit::new().write(RecordWrite::put(&key, ExpectedRevision::Absent, value(1)));
        let committer = tokio::spawn(async move { store.commit(put).await });
        let mut signal = world.store.signal(Topic::Record(key.clone()));
        while world.store.get_one(&key).await.unwrap().live().is_none() {
            heard(&mut signal).await;
        }
        committer.await.unwrap().unwrap().committed().unwrap();
    }
}

async fn an_append_signals_the_log_and_nothing_else(world: World) {
    let mut signals = Signals::of(&world);
    commit(&*world.store, append()).await;
    heard(&mut signals.log).await;
    assert!(signals.all_quiet());
}

async fn a_write_signals_its_record_and_nothing_else(world: World) {
    let mut signals = Signals::of(&world);
    let write = RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1));
    commit(&*world.store, Commit::new().write(write)).await;
    heard(&mut signals.record).await;
    assert!(signals.all_quiet());
}

async fn a_wake_signals_its_queue_and_nothing_else(world: World) {
    let mut signals = Signals::of(&world);
    wake(&*world.store, "a", 1).await;
    heard(&mut signals.queue).await;
    assert!(signals.all_quiet());
}

async fn a_timer_signals_its_queue_before_it_is_due(world: World) {
    let mut signals = Signals::of(&world);
    commit(&*world.store, Commit::new().wake(Wake::at(item("a"), When::In(secs(100))))).await;
    heard(&mut signals.queue).await;
}

async fn an_item_that_can_be_leased_again_signals_its_queue(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let mut signals = Signals::of(&world);
    settle(&*world.store, Settlement::release(lease.token())).await;
    heard(&mut signals.queue).await;
}

async fn an_unblocked_item_signals_its_queue(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::block(lease.token(), "no hope")).await;
    let mut signals = Signals::of(&world);
    world.store.adjust(ItemFilter::default(), Adjustment::Unblock).await.unwrap();
    heard(&mut signals.queue).await;
}

async fn what_came_between_taking_the_signal_and_waiting_is_not_missed(world: World) {
    let mut signals = Signals::of(&world);
    let write = RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1));
    commit(&*world.store, append().write(write).wake(Wake::to_mark(item("a"), mark(1)))).await;
    for signal in [&mut signals.log, &mut signals.record, &mut signals.queue] {
        heard(signal).await;
    }
}

async fn what_came_between_two_waits_is_not_missed(world: World) {
    let mut signals = Signals::of(&world);
    for to in 1..=3 {
        wake(&*world.store, "a", to).await;
        heard(&mut signals.queue).await;
    }
}

async fn a_refused_commit_signals_nothing(world: World) {
    let mut signals = Signals::of(&world);
    let hopeless = append().wake(Wake::to_mark(item("a"), mark(1))).write(RecordWrite::put(
        &key("k"),
        ExpectedRevision::Exists,
        value(1),
    ));
    refused(&*world.store, hopeless).await;
    assert!(signals.all_quiet());
}
