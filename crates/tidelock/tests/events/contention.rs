//! Concurrent callers: of one process, and of several.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::{EventId, NewEvent, StoreExt};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::meddler::Meddler;
use crate::shop::{Counter, No, Stock, StockEvent, receive, step};

on_every_store!(
    every_step_of_every_caller_of_two_processes_is_counted_once,
    stock_is_never_oversold,
    the_last_unit_is_sold_once,
    callers_of_one_process_commit_in_fifo_order,
    waiting_callers_share_a_commit_and_are_judged_separately,
    decisions_on_a_failed_commit_are_retried,
    a_refusal_never_rests_on_uncommitted_events,
    a_cancelled_caller_does_not_affect_others,
    a_caller_cancelled_before_its_commit_appends_nothing,
    a_panic_in_a_decision_is_its_callers_alone,
    a_panic_while_a_batch_lands_is_the_drivers_alone,
    a_waiter_past_its_deadline_gets_an_error,
);

/// EVT-2, EVT-7.
async fn every_step_of_every_caller_of_two_processes_is_counted_once(ground: Ground) {
    const CALLERS: u64 = 8;
    const STEPS: u64 = 12;
    let mut callers = JoinSet::new();
    for tidelock in [ground.open().await, ground.open().await] {
        for _ in 0..CALLERS {
            let counter = tidelock.aggregate::<Counter>("one");
            callers.spawn(async move {
                let mut versions = Vec::new();
                for _ in 0..STEPS {
                    versions.push(counter.execute(step).await.unwrap().version.unwrap().get());
                }
                versions
            });
        }
    }
    let mut versions = callers.join_all().await.concat();
    versions.sort_unstable();
    assert_eq!(
        versions,
        (1..=2 * CALLERS * STEPS).collect::<Vec<_>>(),
        "each was told its own place"
    );
    let counted = ground.open().await.aggregate::<Counter>("one").load().await.unwrap();
    assert_eq!(counted.steps, 2 * CALLERS * STEPS);
}

/// EVT-2. Schedule 83: one sells through decisions, the other reads, decides and appends directly,
/// like a reaction with its own commit.
async fn stock_is_never_oversold(ground: Ground) {
    const UNITS: i64 = 20;
    let (here, there) = (ground.open().await, ground.open().await);
    here.aggregate::<Stock>("tea").execute(receive(UNITS)).await.unwrap();
    let mut sellers = JoinSet::new();
    for caller in 0..6 {
        let stock = here.aggregate::<Stock>("tea");
        sellers.spawn(async move {
            let mut sold = 0;
            loop {
                match stock
                    .execute(|stock| stock.reserve(1, &format!("here-{caller}-{sold}")))
                    .await
                {
                    Ok(_) => sold += 1,
                    Err(refused) => return (sold, refused.refused()),
                }
            }
        });
    }
    for caller in 0..3 {
        let (stock, store) = (there.aggregate::<Stock>("tea"), there.store().clone());
        sellers.spawn(async move {
            let mut sold = 0;
            loop {
                let order = format!("there-{caller}-{sold}");
                match stock.decision().propose(|stock| stock.reserve(1, &order)).await {
                    Ok(commit) => {
                        sold += i64::from(store.commit(commit).await.unwrap().committed().is_ok());
                    }
                    Err(refused) => return (sold, refused.refused()),
                }
            }
        });
    }
    let sold = sellers.join_all().await;
    assert!(sold.iter().all(|(_, refused)| *refused == Some(No::OnlySoMany(0))), "{sold:?}");
    assert_eq!(sold.iter().map(|(sold, _)| sold).sum::<i64>(), UNITS);
    let loaded = ground.open().await.aggregate::<Stock>("tea").load().await.unwrap();
    assert_eq!((loaded.left, loaded.orders.len() as i64), (0, UNITS));
    let mut orders = loaded.orders.clone();
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len() as i64, UNITS, "no order twice");
}

/// EVT-2. Schedule 83: there is one unit in the state that each of them decides on.
async fn the_last_unit_is_sold_once(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (ours, theirs) = (here.aggregate::<Stock>("tea"), there.aggregate::<Stock>("tea"));
    ours.execute(receive(1)).await.unwrap();
    let late = ours.decision().propose(|stock| stock.reserve(1, "late")).await.unwrap();
    theirs.execute(|stock| stock.reserve(1, "there")).await.unwrap();
    let refused = ours.execute(|stock| stock.reserve(1, "here")).await.unwrap_err();
    assert_eq!(refused.refused(), Some(No::OnlySoMany(0)));
    let conflict = here.store().commit(late).await.unwrap().committed().unwrap_err();
    assert!(conflict.to_string().contains("tea"), "{conflict}");
    let loaded = ground.open().await.aggregate::<Stock>("tea").load().await.unwrap();
    assert_eq!((loaded.left, loaded.orders.clone()), (0, vec!["there".to_owned()]));
}

/// Waits until a caller has reached its commit, or the queue.
async fn until(mut reached: impl FnMut() -> bool) {
    let patience = tokio::time::Instant::now() + Duration::from_secs(30);
    while !reached() {
        assert!(tokio::time::Instant::now() < patience, "it never came to that");
        tokio::task::yield_now().await;
    }
}

/// Callers that reserve one unit each, in this order: each is in the queue, or past it, before the
/// next one starts.
async fn one_after_the_other(
    tidelock: &Tidelock,
    callers: std::ops::Range<usize>,
) -> Vec<tokio::task::JoinHandle<Result<u64, No>>> {
    let mut handles = Vec::new();
    for caller in callers {
        let stock = tidelock.aggregate::<Stock>("tea");
        let (entered, has_entered) = tokio::sync::oneshot::channel();
        let mut entered = Some(entered);
        handles.push(tokio::spawn(async move {
            let decide = |stock: &Stock| {
                entered.take().into_iter().for_each(|entered| entered.send(()).unwrap_or_default());
                stock.reserve(1, &caller.to_string())
            };
            let done = stock.decision().retry(Retry::attempts(1_000)).execute(decide).await;
            done.map(|executed| executed.version.unwrap().get()).map_err(|e| e.refused().unwrap())
        }));
        has_entered.await.unwrap();
    }
    handles
}

async fn versions(handles: Vec<tokio::task::JoinHandle<Result<u64, No>>>) -> Vec<Result<u64, No>> {
    let mut versions = Vec::new();
    for handle in handles {
        versions.push(handle.await.unwrap());
    }
    versions
}

/// EVT-7.
async fn callers_of_one_process_commit_in_fifo_order(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    tidelock.aggregate::<Stock>("tea").execute(receive(9)).await.unwrap();
    meddler.hold();
    let callers = one_after_the_other(&tidelock, 0..6).await;
    meddler.let_through();
    assert_eq!(versions(callers).await, (2..8).map(Ok).collect::<Vec<_>>());
    let orders = tidelock.aggregate::<Stock>("tea").load().await.unwrap().orders.clone();
    assert_eq!(orders, ["0", "1", "2", "3", "4", "5"]);
}

/// EVT-7, EVT-1.
async fn waiting_callers_share_a_commit_and_are_judged_separately(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    tidelock.aggregate::<Stock>("tea").execute(receive(4)).await.unwrap();
    let (reads, commits) = meddler.counts();
    meddler.hold();
    let callers = one_after_the_other(&tidelock, 0..6).await;
    meddler.let_through();
    let no = || Err(No::OnlySoMany(0));
    assert_eq!(versions(callers).await, [Ok(2), Ok(3), Ok(4), Ok(5), no(), no()]);
    let (more_reads, more_commits) = meddler.counts();
    assert_eq!(
        more_commits - commits,
        2,
        "the first alone, and all who came while it was under way"
    );
    assert_eq!(more_reads, reads, "and there was no read");
    assert_eq!(tidelock.aggregate::<Stock>("tea").load().await.unwrap().left, 0);
}

/// EVT-7. A conflict with the first of several pipelined commits.
async fn decisions_on_a_failed_commit_are_retried(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let (tidelock, elsewhere) = (Tidelock::over(meddler.clone()), ground.open().await);
    tidelock.aggregate::<Stock>("tea").execute(receive(3)).await.unwrap();
    meddler.hold();
    let callers = one_after_the_other(&tidelock, 0..3).await;
    elsewhere
        .aggregate::<Stock>("tea")
        .execute(|stock| stock.reserve(1, "elsewhere"))
        .await
        .unwrap();
    meddler.let_through();
    let mut told = versions(callers).await;
    told.sort_by_key(|told| told.clone().unwrap_or(u64::MAX));
    assert_eq!(told, [Ok(3), Ok(4), Err(No::OnlySoMany(0))]);
    let loaded = elsewhere.aggregate::<Stock>("tea").load().await.unwrap();
    assert_eq!((loaded.left, loaded.orders.len()), (0, 3));
}

/// EVT-3. The last unit was reserved, but that reservation fails: the next caller is not refused
/// for it.
async fn a_refusal_never_rests_on_uncommitted_events(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone()).with_retry(Retry::never());
    let stock = tidelock.aggregate::<Stock>("tea");
    stock.execute(receive(1)).await.unwrap();
    let (_, commits) = meddler.counts();
    meddler.hold();
    let first = tokio::spawn({
        let stock = stock.clone();
        async move { stock.execute(|stock| stock.reserve(1, "first")).await }
    });
    until(|| meddler.counts().1 > commits).await;
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let second = tokio::spawn({
        let (stock, mut entered) = (stock.clone(), Some(entered));
        async move {
            let decide = |stock: &Stock| {
                entered.take().into_iter().for_each(|entered| entered.send(()).unwrap_or_default());
                stock.reserve(1, "second")
            };
            stock.decision().retry(Retry::attempts(1_000)).execute(decide).await
        }
    });
    has_entered.await.unwrap();
    // Another writer appends, so that the first conflicts; it has one attempt only.
    let received = NewEvent::of("received", &serde_json::json!({ "units": 0 })).unwrap();
    let name = stock.stream().unwrap();
    ground
        .store()
        .await
        .append(name, ExpectedVersion::Any, vec![received])
        .await
        .unwrap()
        .committed()
        .unwrap();
    meddler.let_through();
    assert!(matches!(first.await.unwrap(), Err(ExecuteError::GaveUp { attempts: 1, .. })));
    assert_eq!(second.await.unwrap().unwrap().version.unwrap().get(), 3);
    assert_eq!(stock.load().await.unwrap().orders, ["second"]);
}

/// EVT-7.
async fn a_cancelled_caller_does_not_affect_others(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    tidelock.aggregate::<Stock>("tea").execute(receive(9)).await.unwrap();
    let (_, commits) = meddler.counts();
    meddler.hold();
    let mut callers = one_after_the_other(&tidelock, 0..4).await;
    until(|| meddler.counts().1 > commits).await;
    // The caller whose commit is in flight, and one behind it.
    for gone in [2, 0] {
        let gone = callers.remove(gone);
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    meddler.let_through();
    assert_eq!(versions(callers).await, [Ok(3), Ok(5)]);
    let loaded = ground.open().await.aggregate::<Stock>("tea").load().await.unwrap();
    assert_eq!(loaded.orders, ["0", "1", "2", "3"], "what was decided is there, once");
    let next = tidelock.aggregate::<Stock>("tea").execute(receive(1)).await.unwrap();
    assert_eq!(next.version.unwrap().get(), 6);
}

/// EVT-7.
async fn a_caller_cancelled_before_its_commit_appends_nothing(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    let stock = tidelock.aggregate::<Stock>("tea");
    stock.execute(receive(9)).await.unwrap();
    let (_, commits) = meddler.counts();
    meddler.hold();
    let callers = one_after_the_other(&tidelock, 0..1).await;
    // Only then: before it is sent, the second one would share its commit.
    until(|| meddler.counts().1 > commits).await;
    let leaving = one_after_the_other(&tidelock, 1..2).await.remove(0);
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    meddler.let_through();
    assert_eq!(versions(callers).await, [Ok(2)]);
    stock.execute(receive(1)).await.unwrap();
    assert_eq!(stock.load().await.unwrap().orders, ["0"], "not with the next one's commit either");
}

/// EVT-7.
async fn a_panic_in_a_decision_is_its_callers_alone(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("tea");
    stock.execute(receive(1)).await.unwrap();
    let panicking = tokio::spawn({
        let stock = stock.clone();
        async move {
            stock.execute(|_| -> Result<StockEvent, No> { panic!("a bug, as asked for") }).await
        }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(stock.execute(receive(1)).await.unwrap().version.unwrap().get(), 2);
}

/// Marks that panic once when they are applied.
static ARMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

#[derive(Debug, Default, Clone)]
struct Fragile {
    marks: Vec<String>,
}

#[derive(Debug, Event)]
struct Marked {
    mark: String,
}

impl Aggregate for Fragile {
    const KIND: &'static str = "fragile";
    type Event = Marked;

    fn apply(&mut self, event: &Marked) {
        let armed = ARMED.lock().unwrap().remove(&event.mark);
        assert!(!armed, "a bug, as asked for");
        self.marks.push(event.mark.clone());
    }
}

/// EVT-7.
async fn a_panic_while_a_batch_lands_is_the_drivers_alone(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    let run = EventId::fresh();
    let mark = |nth| format!("{run} {nth}");
    meddler.hold();
    let mut callers = Vec::new();
    for nth in 0..3 {
        let (fragile, mark) = (tidelock.aggregate::<Fragile>("1"), mark(nth));
        let (entered, has_entered) = tokio::sync::oneshot::channel();
        let mut entered = Some(entered);
        callers.push(tokio::spawn(async move {
            let decide = |_: &Fragile| {
                entered.take().into_iter().for_each(|entered| entered.send(()).unwrap_or_default());
                Ok::<_, No>(Marked { mark: mark.clone() })
            };
            fragile.execute(decide).await.map(|executed| executed.version.unwrap().get())
        }));
        has_entered.await.unwrap();
        until(|| meddler.counts().1 == 1).await;
    }
    // The second and the third share a batch. Their events were applied once, when they were
    // decided.
    tokio::task::yield_now().await;
    ARMED.lock().unwrap().insert(mark(1));
    meddler.let_through();
    let mut ended = Vec::new();
    for caller in callers {
        ended.push(caller.await);
    }
    assert_eq!(ended.remove(0).unwrap().unwrap(), 1);
    let (panicked, landed): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_err);
    assert!(panicked.into_iter().all(|error| error.unwrap_err().is_panic()));
    assert_eq!(landed.len(), 1, "one of the two drove the commit");
    assert!(landed.into_iter().all(|landed| landed.unwrap().is_ok()));
    let fragile = tidelock.aggregate::<Fragile>("1");
    assert_eq!(fragile.load().await.unwrap().marks, [mark(0), mark(1), mark(2)], "each once");
    let next = fragile.execute(|_| Ok::<_, No>(Marked { mark: mark(3) })).await.unwrap();
    assert_eq!(next.version.unwrap().get(), 4);
}

/// EVT-2.
async fn a_waiter_past_its_deadline_gets_an_error(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    let stock = tidelock.aggregate::<Stock>("tea");
    meddler.hold();
    // It needs its own commit, and so it holds the lock until that is done.
    let first = tokio::spawn({
        let stock = stock.clone();
        async move { stock.operation_id("first").execute(receive(1)).await }
    });
    until(|| meddler.commits.load(Ordering::SeqCst) == 1).await;
    let impatient = Retry::default().within(Duration::ZERO);
    let late = stock.decision().retry(impatient).execute(receive(1)).await.unwrap_err();
    assert!(matches!(late, ExecuteError::WaitedTooLong { .. }), "{late}");
    let late = stock.operation_id("second").retry(impatient).execute(receive(1)).await.unwrap_err();
    assert!(matches!(late, ExecuteError::WaitedTooLong { .. }), "{late}");
    meddler.let_through();
    assert_eq!(first.await.unwrap().unwrap().version.unwrap().get(), 1);
}
