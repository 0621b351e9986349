//! Load, decide, append; and conflicts.

use std::time::Duration;

use tidelock::When;
use tidelock::prelude::*;
use tidelock::store::{Commit, ItemRef, NewEvent, StoreExt, StreamState, Version, Wake};
use tidelock::{ExpectedVersion, VersionConflict};

use crate::harness::{Ground, on_every_store};
use crate::shop::{No, Stock, StockEvent, receive};

on_every_store!(
    a_decision_becomes_events_and_the_events_become_state,
    a_decision_that_says_no_writes_nothing,
    a_decision_of_nothing_writes_nothing,
    a_decision_is_retried_on_the_new_state,
    a_refusal_is_never_given_on_a_state_that_others_have_changed,
    of_two_creators_one_wins_and_the_other_gets_a_conflict,
    a_version_that_the_caller_named_is_never_retried,
    attempts_and_deadline_are_kept,
    a_closed_stream_takes_no_decision,
);

fn version(n: u64) -> Version {
    Version::new(n).unwrap()
}

/// EVT-1.
async fn a_decision_becomes_events_and_the_events_become_state(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("sku-7");
    assert_eq!(stock.load().await.unwrap().version, None);
    let received = stock.execute(receive(5)).await.unwrap();
    assert_eq!((received.stream.as_str(), received.version), ("stock-sku-7", Some(version(1))));
    let two = |stock: &Stock| Ok::<_, No>(vec![stock.reserve(1, "a")?, stock.reserve(2, "b")?]);
    let reserved = stock.execute(two).await.unwrap();
    assert_eq!((reserved.version, reserved.events.len()), (Some(version(3)), 2));

    let loaded = ground.open().await.aggregate::<Stock>("sku-7").load().await.unwrap();
    assert_eq!((loaded.left, loaded.version), (2, Some(version(3))));
    let history = stock.history().await.unwrap();
    assert_eq!(history[2].event, StockEvent::Reserved { units: 2, order: "b".into() });
    assert_eq!((Some(history[2].position), history[2].id), (reserved.position, reserved.events[1]));
}

/// EVT-1.
async fn a_decision_that_says_no_writes_nothing(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("sku-7");
    stock.execute(receive(1)).await.unwrap();
    let refused = stock.execute(|stock| stock.reserve(2, "a")).await.unwrap_err();
    assert_eq!(refused.refused(), Some(No::OnlySoMany(1)));
    assert_eq!(stock.load().await.unwrap().version, Some(version(1)));
}

/// EVT-1.
async fn a_decision_of_nothing_writes_nothing(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("sku-7");
    let nothing = stock.execute(|_| Ok::<(), No>(())).await.unwrap();
    assert_eq!((nothing.version, nothing.position, nothing.events), (None, None, Vec::new()));
    stock.execute(receive(1)).await.unwrap();
    let nothing = stock.execute(|_| Ok::<Option<StockEvent>, No>(None)).await.unwrap();
    assert_eq!((nothing.version, nothing.events), (Some(version(1)), Vec::new()));
}

/// EVT-2.
async fn a_decision_is_retried_on_the_new_state(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    here.aggregate::<Stock>("sku-7").execute(receive(3)).await.unwrap();
    there.aggregate::<Stock>("sku-7").execute(|stock| stock.reserve(2, "there")).await.unwrap();

    let mut seen = Vec::new();
    let decide = |stock: &Stock| {
        seen.push(stock.left);
        stock.reserve(1, "here")
    };
    let executed = here.aggregate::<Stock>("sku-7").execute(decide).await.unwrap();
    assert_eq!(seen, [3, 1], "first on what was remembered, then on what is there");
    assert_eq!((executed.attempts, executed.version), (2, Some(version(3))));
}

/// EVT-3.
async fn a_refusal_is_never_given_on_a_state_that_others_have_changed(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    here.aggregate::<Stock>("sku-7").execute(receive(1)).await.unwrap();
    there.aggregate::<Stock>("sku-7").execute(receive(5)).await.unwrap();
    let reserved =
        here.aggregate::<Stock>("sku-7").execute(|stock| stock.reserve(6, "here")).await.unwrap();
    assert_eq!(reserved.version, Some(version(3)));
    there.aggregate::<Stock>("sku-7").execute(receive(2)).await.unwrap();
    let wide =
        |stock: &Stock| Ok::<_, No>((stock.left == 0).then_some(StockEvent::Received { units: 9 }));
    let nothing = here.aggregate::<Stock>("sku-7").execute(wide).await.unwrap();
    assert_eq!((nothing.events.len(), nothing.version), (0, Some(version(4))));
}

/// EVT-4. Schedule 82.
async fn of_two_creators_one_wins_and_the_other_gets_a_conflict(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    // Both have read that there is no stream.
    for tidelock in [&here, &there] {
        assert_eq!(tidelock.aggregate::<Stock>("sku-7").load().await.unwrap().version, None);
    }
    let open = |tidelock: &Tidelock, units| {
        let stock = tidelock.aggregate::<Stock>("sku-7");
        async move { stock.new_only().execute(|stock| stock.open(units)).await }
    };
    let (one, other) = tokio::join!(open(&here, 3), open(&there, 4));
    let (won, lost) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(won.unwrap().version, Some(version(1)));
    let Err(ExecuteError::Conflict { stream, conflict }) = lost else { panic!("both won") };
    assert_eq!(stream.as_str(), "stock-sku-7");
    let found = StreamState::Open(version(1));
    assert_eq!(conflict, VersionConflict { expected: ExpectedVersion::NoStream, found });

    // Creation is guarded by default as well: the second decides on the first's state.
    let (one, other) = (here.aggregate::<Stock>("sku-8"), there.aggregate::<Stock>("sku-8"));
    one.load().await.unwrap();
    other.execute(|stock| stock.open(4)).await.unwrap();
    let refused = one.execute(|stock| stock.open(3)).await.unwrap_err();
    assert_eq!(refused.refused(), Some(No::ThereIsOne));
    assert_eq!(one.load().await.unwrap().left, 4);
}

/// EVT-4.
async fn a_version_that_the_caller_named_is_never_retried(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let stock = here.aggregate::<Stock>("sku-7");
    stock.execute(receive(3)).await.unwrap();
    let seen = stock.load().await.unwrap().version.unwrap();
    there.aggregate::<Stock>("sku-7").execute(receive(1)).await.unwrap();

    let mut decisions = 0;
    let decide = |stock: &Stock| {
        decisions += 1;
        stock.reserve(1, "a")
    };
    let lost = stock.at_version(seen).execute(decide).await.unwrap_err();
    assert_eq!(lost.to_string(), r#"stream "stock-sku-7": expected version 1, found version 2"#);
    assert!(decisions <= 1, "{decisions} decisions");
    let seen = stock.load().await.unwrap().version.unwrap();
    let done = stock.at_version(seen).execute(|stock| stock.reserve(4, "a")).await.unwrap();
    assert_eq!(done.version, Some(version(3)));
    let lost = stock.at_version(version(9)).execute(receive(1)).await.unwrap_err();
    assert!(lost.to_string().ends_with("expected version 9, found version 3"), "{lost}");
}

/// EVT-2. Another writer is always faster.
async fn attempts_and_deadline_are_kept(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let stock = here.aggregate::<Stock>("sku-7");
    stock.execute(receive(1)).await.unwrap();
    let name = stock.stream().unwrap().clone();
    let handle = tokio::runtime::Handle::current();
    let overtaken = |decisions: &mut u32| {
        *decisions += 1;
        let (store, name, handle) = (there.store().clone(), name.clone(), handle.clone());
        let quicker = NewEvent::of("received", &serde_json::json!({ "units": 1 })).unwrap();
        let append = async move { store.append(&name, ExpectedVersion::Any, vec![quicker]).await };
        tokio::task::block_in_place(|| handle.block_on(append)).unwrap().committed().unwrap();
        Ok::<_, No>(StockEvent::Received { units: 1 })
    };

    let mut decisions = 0;
    let policy = Retry::attempts(3).backoff(Backoff::none());
    let gave_up =
        stock.decision().retry(policy).execute(|_| overtaken(&mut decisions)).await.unwrap_err();
    assert_eq!(decisions, 3);
    let ExecuteError::GaveUp { attempts: 3, last, .. } = gave_up else { panic!("{gave_up}") };
    assert_eq!(last.found.version().unwrap().get(), 4);

    let policy = Retry::attempts(u32::MAX).within(Duration::ZERO);
    let gave_up =
        stock.decision().retry(policy).execute(|_| overtaken(&mut decisions)).await.unwrap_err();
    let ExecuteError::GaveUp { attempts: 1, .. } = gave_up else { panic!("{gave_up}") };
    assert_eq!(decisions, 4);
}

/// EVT-1.
async fn a_closed_stream_takes_no_decision(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("sku-7");
    stock.execute(receive(1)).await.unwrap();
    let close = tidelock::store::Append::closing(stock.stream().unwrap(), ExpectedVersion::Any);
    ground
        .store()
        .await
        .commit(Commit::new().with_append(close))
        .await
        .unwrap()
        .committed()
        .unwrap();
    let refused = stock.execute(receive(1)).await.unwrap_err();
    assert!(
        matches!(refused, ExecuteError::Closed { version, .. } if version.get() == 1),
        "{refused}"
    );
    let refused = stock
        .decision()
        .by("ada")
        .also(Commit::new().wake(Wake::at(ItemRef::parse("mail", "x").unwrap(), When::NOW)));
    let refused = refused.execute(receive(1)).await.unwrap_err();
    assert!(matches!(refused, ExecuteError::Closed { .. }), "{refused}");
}
