//! Operation ids: at most one effect, however often it is retried, whatever the store replies.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidelock::events::Provenance;
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, EventId, ManualClock, MemoryStore, RecordKey, RecordQuery, RecordWrite,
    RetryAdvice, StoreExt,
};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::meddler::{Fault, Meddler};
use crate::shop::{No, Stock, StockEvent, receive};

on_every_store!(
    an_operation_is_done_once_and_answers_alike,
    an_operation_that_many_ask_for_at_once_is_done_once,
    an_operation_that_decided_nothing_stays_so,
    a_refusal_is_not_remembered,
    an_unknown_outcome_is_found_out,
    a_busy_store_is_asked_again,
    an_outcome_that_stays_unknown_is_told_as_such,
    an_append_under_the_same_ids_is_done_once,
    an_append_is_an_operation_too,
    what_is_committed_beside_events_happens_once_under_their_ids,
    event_ids_are_for_an_append,
);

/// EVT-6.
async fn an_operation_is_done_once_and_answers_alike(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let last = here.aggregate::<Stock>("tea");
    last.execute(receive(1)).await.unwrap();
    let first =
        last.operation_id("order-1").execute(|stock| stock.reserve(1, "order-1")).await.unwrap();
    here.aggregate::<Stock>("tea").execute(receive(0)).await.unwrap();
    for tidelock in [&here, &there] {
        // Decided again, it would be refused.
        let stock = tidelock.aggregate::<Stock>("tea");
        let again = stock
            .operation_id("order-1")
            .execute(|stock| stock.reserve(1, "order-1"))
            .await
            .unwrap();
        assert_eq!(
            (again.version, again.position, &again.events),
            (first.version, first.position, &first.events)
        );
        assert_eq!(again.how, Provenance::Replayed);
    }
    let other = last
        .operation_id("order-2")
        .execute(|stock| stock.reserve(1, "order-2"))
        .await
        .unwrap_err();
    assert_eq!(other.refused(), Some(No::OnlySoMany(0)));
    assert_eq!(last.load().await.unwrap().orders, ["order-1"]);
}

/// EVT-6.
async fn an_operation_that_many_ask_for_at_once_is_done_once(ground: Ground) {
    let mut callers = JoinSet::new();
    for tidelock in [ground.open().await, ground.open().await] {
        for _ in 0..4 {
            let stock = tidelock.aggregate::<Stock>("tea");
            callers.spawn(async move {
                stock.operation_id("delivery-1").execute(receive(5)).await.unwrap()
            });
        }
    }
    let told = callers.join_all().await;
    assert!(told.iter().all(|executed| executed.events == told[0].events), "{told:?}");
    assert_eq!(told.iter().filter(|executed| executed.how != Provenance::Replayed).count(), 1);
    assert_eq!(ground.open().await.aggregate::<Stock>("tea").load().await.unwrap().left, 5);
}

/// EVT-6.
async fn an_operation_that_decided_nothing_stays_so(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("tea");
    let nothing = stock.operation_id("look").execute(|_| Ok::<(), Infallible>(())).await.unwrap();
    assert_eq!((nothing.version, nothing.events.len()), (None, 0));
    let again = stock.operation_id("look").execute(receive(5)).await.unwrap();
    assert_eq!((again.how, again.version, again.events.len()), (Provenance::Replayed, None, 0));
}

/// EVT-6.
async fn a_refusal_is_not_remembered(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("tea");
    let buy = || stock.operation_id("order-1").dedup_window(Duration::from_secs(60));
    buy().execute(|stock| stock.reserve(1, "order-1")).await.unwrap_err();
    stock.execute(receive(1)).await.unwrap();
    assert_eq!(
        buy().execute(|stock| stock.reserve(1, "order-1")).await.unwrap().how,
        Provenance::Decided
    );
}

/// EVT-6. The reply is lost, or the request, of a shared commit and of a larger one.
async fn an_unknown_outcome_is_found_out(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    let (tea, key) = (tidelock.aggregate::<Stock>("tea"), RecordKey::new("bell").unwrap());
    for (nth, fault) in [(0, Fault::LostReply), (1, Fault::LostRequest), (2, Fault::LostReply)] {
        meddler.fail([fault, Fault::LostReply, Fault::LostRequest]);
        assert_eq!(tea.execute(receive(1)).await.unwrap().version.unwrap().get(), 2 * nth + 1);
        let bell = Commit::new().write(RecordWrite::add(&key, 1, Bounds::NONE));
        meddler.fail([fault, Fault::LostReply]);
        let rung = tea.decision().also(bell).execute(receive(1)).await.unwrap();
        assert_eq!(rung.version.unwrap().get(), 2 * nth + 2);
    }
    let loaded = ground.open().await.aggregate::<Stock>("tea").load().await.unwrap();
    assert_eq!((loaded.left, loaded.version.unwrap().get()), (6, 6));
    let rung = ground.store().await.get(&[key]).await.unwrap().remove(0).into_live().unwrap();
    assert_eq!(rung.value.to::<i64>().unwrap(), 3);
}

/// EVT-6.
async fn a_busy_store_is_asked_again(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    meddler.fail([Fault::Busy, Fault::Busy]);
    assert_eq!(tidelock.aggregate::<Stock>("tea").execute(receive(1)).await.unwrap().attempts, 1);
    assert_eq!(meddler.counts().1, 3);
}

/// EVT-6.
async fn an_outcome_that_stays_unknown_is_told_as_such(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone()).with_retry(Retry::attempts(3));
    let tea = tidelock.aggregate::<Stock>("tea");
    meddler.fail([Fault::LostReply, Fault::LostRequest, Fault::Busy]);
    let unknown = tea.execute(receive(1)).await.unwrap_err();
    let ExecuteError::Store(error) = unknown else { panic!("{unknown}") };
    assert_eq!(error.advice(), RetryAdvice::Unknown);
    // It did land, and the next caller finds it.
    assert_eq!(tea.execute(receive(1)).await.unwrap().version.unwrap().get(), 2);
}

/// EVT-6.
async fn an_append_under_the_same_ids_is_done_once(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let ids = [EventId::fresh(), EventId::fresh()];
    let events = || [StockEvent::Received { units: 1 }, StockEvent::Received { units: 2 }];
    let append = async |tidelock: &Tidelock| {
        let command = tidelock.aggregate::<Stock>("tea").decision().event_ids(ids);
        command.new_only().append(events()).await.unwrap()
    };
    let (first, again) = (append(&here).await, append(&there).await);
    assert_eq!((first.how, again.how), (Provenance::Decided, Provenance::Replayed));
    assert_eq!(
        (first.version, first.position, first.events),
        (again.version, again.position, again.events)
    );
    let command = here.aggregate::<Stock>("tea").decision().event_ids(ids);
    let refused = command.append(StockEvent::Received { units: 1 }).await.unwrap_err();
    assert!(refused.to_string().contains("2 event ids for 1 events"), "{refused}");
    let lost = here.aggregate::<Stock>("tea").new_only().append(events()).await.unwrap_err();
    assert!(matches!(lost, ExecuteError::Conflict { .. }), "{lost}");
}

/// EVT-6.
async fn an_append_is_an_operation_too(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let received = || [StockEvent::Received { units: 1 }, StockEvent::Received { units: 2 }];
    let append = async |tidelock: &Tidelock| {
        let tea = tidelock.aggregate::<Stock>("tea");
        tea.operation_id("delivery-1").also(counted()).append(received()).await.unwrap()
    };
    let first = append(&here).await;
    here.aggregate::<Stock>("tea").execute(receive(4)).await.unwrap();
    let again = append(&there).await;
    assert_eq!((first.how, again.how), (Provenance::Decided, Provenance::Replayed));
    assert_eq!(
        (first.version, first.position, first.events),
        (again.version, again.position, again.events)
    );
    assert_eq!(there.aggregate::<Stock>("tea").load().await.unwrap().left, 7);
    assert_eq!(count(&here).await, 1);
}

/// EVT-6.
async fn what_is_committed_beside_events_happens_once_under_their_ids(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let ids = [EventId::fresh()];
    let append = async |tidelock: &Tidelock| {
        let command = tidelock.aggregate::<Stock>("tea").decision().event_ids(ids);
        command.also(counted()).append(StockEvent::Received { units: 1 }).await.unwrap()
    };
    let (first, again) = (append(&here).await, append(&there).await);
    assert_eq!(first.events, ids);
    assert_eq!(
        (first.version, first.position, first.events),
        (again.version, again.position, again.events)
    );
    assert_eq!(count(&here).await, 1);
}

async fn event_ids_are_for_an_append(ground: Ground) {
    let tidelock = ground.open().await;
    let command = tidelock.aggregate::<Stock>("tea").decision().event_ids([EventId::fresh()]);
    let refused = command.execute(receive(1)).await.unwrap_err();
    assert!(refused.to_string().contains("event ids are for an append"), "{refused}");
    assert!(refused.to_string().contains("stock-tea"), "{refused}");
}

fn counted() -> Commit {
    Commit::new().write(RecordWrite::add(&RecordKey::new("count").unwrap(), 1, Bounds::default()))
}

async fn count(tidelock: &Tidelock) -> i64 {
    let count = tidelock.store().get_one(&RecordKey::new("count").unwrap()).await.unwrap();
    count.into_live().unwrap().value.to().unwrap()
}

/// EVT-6. The ids of its events outlive the memory of an operation.
#[tokio::test]
async fn a_forgotten_operation_appends_nothing_twice() {
    let clock = ManualClock::default();
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let (tea, minute) = (tidelock.aggregate::<Stock>("tea"), Duration::from_secs(60));
    let receive_once = || {
        let decision = tea.operation_id("delivery-1").dedup_window(minute);
        decision.execute(receive(5))
    };
    let first = receive_once().await.unwrap();
    tea.execute(receive(1)).await.unwrap();
    for _ in 0..2 {
        clock.advance(2 * minute);
        for _ in 0..2 {
            let again = receive_once().await.unwrap();
            assert_eq!(
                (again.version, again.position, &again.events),
                (first.version, first.position, &first.events)
            );
            assert_eq!(again.how, Provenance::Replayed);
            assert_eq!(tea.load().await.unwrap().left, 6);
        }
    }
    assert_eq!(tea.execute(receive(1)).await.unwrap().version.unwrap().get(), 3);
}

/// EVT-6. The retention can be set before or after the operation's id.
#[tokio::test]
async fn the_dedup_window_can_be_set_in_any_order() {
    let tidelock = Tidelock::open("memory:").await.unwrap();
    let (tea, minute) = (tidelock.aggregate::<Stock>("tea"), Duration::from_secs(60));
    tea.decision().operation_id("late").dedup_window(minute).execute(receive(1)).await.unwrap();
    tea.decision().dedup_window(minute).operation_id("early").execute(receive(1)).await.unwrap();
    let horizon = tidelock.store().now().await.unwrap().plus(minute);
    let kept = tidelock.store().scan(RecordQuery::prefix("~operation/")).await.unwrap().records;
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|kept| kept.expires_at.is_some_and(|at| at <= horizon)), "{kept:?}");
}
