//! Several streams, and other parts, in one commit.

use std::convert::Infallible;

use tidelock::When;
use tidelock::events::Provenance;
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, ItemRef, RecordKey, RecordWrite, StoreExt, ViolationKind, Wake,
};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::shop::{Counter, No, Stepped, Stock, StockEvent, receive, step};

on_every_store!(
    several_streams_are_decided_about_in_one_commit,
    a_stream_that_was_only_looked_at_must_not_have_moved,
    transfers_in_all_directions_lose_nothing,
    as_many_streams_of_one_kind_as_there_are,
    an_operation_on_several_streams_is_done_once,
    records_and_wakes_go_with_the_events_or_not_at_all,
    a_stream_is_not_decided_about_twice_at_once,
);

/// EVT-8.
async fn several_streams_are_decided_about_in_one_commit(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (tea, orders) = (here.aggregate::<Stock>("tea"), here.aggregate::<Counter>("orders"));
    tea.execute(receive(2)).await.unwrap();
    // Each of them has moved elsewhere.
    there.aggregate::<Stock>("tea").execute(receive(1)).await.unwrap();
    there.aggregate::<Counter>("orders").execute(step).await.unwrap();
    let order = |units: i64| {
        move |(stock, _): (&Stock, &Counter)| Ok::<_, No>((stock.reserve(units, "a")?, Stepped {}))
    };
    let done = here.decide((&tea, &orders)).execute(order(3)).await.unwrap();
    assert_eq!(done.iter().map(|one| one.version.unwrap().get()).collect::<Vec<_>>(), [3, 2]);
    let refused = here.decide((&tea, &orders)).execute(order(1)).await.unwrap_err();
    assert_eq!(refused.refused(), Some(No::OnlySoMany(0)));
    assert_eq!(there.aggregate::<Counter>("orders").load().await.unwrap().steps, 2);
}

/// EVT-8.
async fn a_stream_that_was_only_looked_at_must_not_have_moved(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (tea, orders) = (here.aggregate::<Stock>("tea"), here.aggregate::<Counter>("orders"));
    tea.execute(receive(1)).await.unwrap();
    tea.load().await.unwrap();
    there.aggregate::<Stock>("tea").execute(|stock| stock.reserve(1, "there")).await.unwrap();
    let mut seen = Vec::new();
    let only_if_there_is_some = |(stock, _): (&Stock, &Counter)| {
        seen.push(stock.left);
        if stock.left > 0 { Ok(((), Stepped {})) } else { Err(No::OnlySoMany(0)) }
    };
    let refused = here.decide((&tea, &orders)).execute(only_if_there_is_some).await.unwrap_err();
    assert_eq!((refused.refused(), seen), (Some(No::OnlySoMany(0)), vec![1, 0]));
    assert_eq!(orders.load().await.unwrap().version, None);
}

/// EVT-8, EVT-7. In opposite directions concurrently, from two processes: no deadlock, and the sum
/// stays.
async fn transfers_in_all_directions_lose_nothing(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    for id in ["a", "b", "c"] {
        here.aggregate::<Stock>(id).execute(receive(100)).await.unwrap();
    }
    let mut movers = JoinSet::new();
    for (nth, tidelock) in [&here, &there].into_iter().cycle().take(6).enumerate() {
        let tidelock = tidelock.clone();
        let (from, to) =
            [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "a"), ("a", "c")][nth];
        movers.spawn(async move {
            let (from, to) = (tidelock.aggregate::<Stock>(from), tidelock.aggregate::<Stock>(to));
            for _ in 0..5 {
                let moved = |(from, _): (&Stock, &Stock)| {
                    Ok::<_, No>((from.reserve(3, "moved")?, StockEvent::Received { units: 3 }))
                };
                tidelock.decide((&from, &to)).execute(moved).await.unwrap();
            }
        });
    }
    movers.join_all().await;
    let mut left = Vec::new();
    for id in ["a", "b", "c"] {
        left.push(ground.open().await.aggregate::<Stock>(id).load().await.unwrap().left);
    }
    assert_eq!(left, [100, 100, 100], "each gave as much as it got");
}

/// EVT-8.
async fn as_many_streams_of_one_kind_as_there_are(ground: Ground) {
    let tidelock = ground.open().await;
    let all: Vec<_> = (0..5).map(|id| tidelock.aggregate::<Stock>(id.to_string())).collect();
    let one_more_each = |states: Vec<&Stock>| {
        Ok::<_, Infallible>(
            states.iter().map(|s| StockEvent::Received { units: s.left + 1 }).collect::<Vec<_>>(),
        )
    };
    tidelock.decide(&all[..]).execute(one_more_each).await.unwrap();
    let done = tidelock.decide(&all[..]).execute(one_more_each).await.unwrap();
    assert!(done.iter().all(|one| one.version.unwrap().get() == 2));
    assert_eq!(all[3].load().await.unwrap().left, 3);
}

/// EVT-6, EVT-8.
async fn an_operation_on_several_streams_is_done_once(ground: Ground) {
    let tidelock = ground.open().await;
    let (a, b) = (tidelock.aggregate::<Stock>("a"), tidelock.aggregate::<Counter>("b"));
    let both = |_: (&Stock, &Counter)| {
        Ok::<_, Infallible>((StockEvent::Received { units: 1 }, Stepped {}))
    };
    let first = tidelock.decide((&a, &b)).operation_id("once").execute(both).await.unwrap();
    let again = tidelock.decide((&a, &b)).operation_id("once").execute(both).await.unwrap();
    assert!(again.iter().all(|one| one.how == Provenance::Replayed));
    let places = |all: &[tidelock::events::Executed]| {
        all.iter().map(|one| (one.version, one.position)).collect::<Vec<_>>()
    };
    assert_eq!(places(&first), places(&again));
}

/// EVT-8.
async fn records_and_wakes_go_with_the_events_or_not_at_all(ground: Ground) {
    let tidelock = ground.open().await;
    let (tea, key) = (tidelock.aggregate::<Stock>("tea"), RecordKey::new("sold").unwrap());
    let mail = ItemRef::parse("mail", "order-1").unwrap();
    let parts = |most| {
        let commit = Commit::new().write(RecordWrite::add(&key, 1, Bounds::at_most(most)));
        commit.wake(Wake::at(mail.clone(), When::NOW))
    };
    tea.decision().also(parts(1)).execute(receive(1)).await.unwrap();
    assert!(tidelock.store().item(&mail).await.unwrap().is_some());
    let refused = tea.decision().also(parts(1)).execute(receive(1)).await.unwrap_err();
    assert!(
        matches!(&refused, ExecuteError::Part(conflict) if conflict.has(ViolationKind::Exceeded)),
        "{refused}"
    );
    assert_eq!(tea.load().await.unwrap().left, 1);
}

/// EVT-8.
async fn a_stream_is_not_decided_about_twice_at_once(ground: Ground) {
    let tidelock = ground.open().await;
    let tea = tidelock.aggregate::<Stock>("tea");
    let both = |_: (&Stock, &Stock)| Ok::<_, Infallible>(((), ()));
    let refused = tidelock.decide((&tea, &tea)).execute(both).await.unwrap_err();
    assert!(refused.to_string().contains(r#"stream "stock-tea" comes twice"#), "{refused}");
}
