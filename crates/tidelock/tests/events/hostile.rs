//! Hostile names, sizes and values.

use std::convert::Infallible;

use tidelock::prelude::*;
use tidelock::store::{StoreErrorKind, limits};

use crate::harness::{Ground, on_every_store};
use crate::shop::{Stock, StockEvent, receive};

on_every_store!(
    odd_ids_are_ids_like_any_other,
    an_id_that_is_none_is_refused_by_every_call,
    an_unstorable_event_is_refused_without_affecting_other_commits,
    an_operation_id_that_is_none_is_refused,
);

async fn refusal(id: &str, ground: &Ground) -> (StoreErrorKind, String) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>(id);
    let ExecuteError::Store(error) = stock.execute(receive(1)).await.unwrap_err() else {
        panic!("{id:?}")
    };
    stock.load().await.unwrap_err();
    stock.history().await.unwrap_err();
    tidelock.decide((&stock,).0).execute(|_| Ok::<_, String>(())).await.unwrap_err();
    (error.kind(), error.to_string())
}

/// EVT-15.
async fn odd_ids_are_ids_like_any_other(ground: Ground) {
    let tidelock = ground.open().await;
    let longest = "7".repeat(limits::STREAM_NAME_BYTES - "stock-".len());
    for id in [
        "sku-7",
        "~7",
        "a/b",
        "%2F",
        " ",
        "'; drop table events; --",
        "ü🚢",
        "-",
        "~snapshot/x",
        &longest,
    ] {
        let stock = tidelock.aggregate::<Stock>(id);
        stock.operation_id("op/1").execute(receive(1)).await.unwrap();
        stock.execute(receive(2)).await.unwrap();
        let loaded = ground.open().await.aggregate::<Stock>(id).load().await.unwrap();
        assert_eq!((loaded.left, loaded.stream.as_str()), (3, format!("stock-{id}").as_str()));
    }
}

/// EVT-15.
async fn an_id_that_is_none_is_refused_by_every_call(ground: Ground) {
    assert_eq!(refusal("", &ground).await.0, StoreErrorKind::Invalid);
    assert_eq!(refusal("a\0b", &ground).await.0, StoreErrorKind::Invalid);
    let (kind, message) = refusal(&"7".repeat(300), &ground).await;
    assert_eq!(kind, StoreErrorKind::LimitExceeded);
    assert!(message.contains("the limit is 256"), "{message}");
}

#[derive(Debug, Default, Clone)]
struct Scale {
    weighed: usize,
}

#[derive(Debug, Event)]
struct Weighed {
    grams: f64,
    note: String,
}

impl Aggregate for Scale {
    const KIND: &'static str = "scale";
    type Event = Weighed;

    fn apply(&mut self, _: &Weighed) {
        self.weighed += 1;
    }
}

/// EVT-15, EVT-7.
async fn an_unstorable_event_is_refused_without_affecting_other_commits(ground: Ground) {
    let tidelock = ground.open().await;
    let scale = tidelock.aggregate::<Scale>("one");
    let weigh = |grams: f64, note: &str| {
        let note = note.to_owned();
        move |_: &Scale| Ok::<_, Infallible>(Weighed { grams, note: note.clone() })
    };
    let huge = "x".repeat(limits::PAYLOAD_BYTES);
    let (good, not_finite, too_long, nul, many, also_good) = tokio::join!(
        scale.execute(weigh(1.0, "fine")),
        scale.execute(weigh(f64::NAN, "")),
        scale.execute(weigh(1.0, &huge)),
        scale.execute(weigh(1.0, "\0")),
        scale.execute(|_| {
            let one = || Weighed { grams: 1.0, note: String::new() };
            Ok::<_, Infallible>((0..=limits::EVENTS_PER_COMMIT).map(|_| one()).collect::<Vec<_>>())
        }),
        scale.execute(weigh(2.0, "fine too")),
    );
    good.unwrap();
    also_good.unwrap();
    let not_finite = not_finite.unwrap_err().to_string();
    assert!(not_finite.contains(r#"stream "scale-one": event "weighed""#), "{not_finite}");
    assert!(not_finite.contains("not finite"), "{not_finite}");
    assert!(too_long.unwrap_err().to_string().contains("the limit is 1048576"));
    assert!(nul.unwrap_err().to_string().contains("NUL"));
    assert!(many.unwrap_err().to_string().contains("the limit is 1000"));
    assert_eq!(ground.open().await.aggregate::<Scale>("one").load().await.unwrap().weighed, 2);
}

/// EVT-15.
async fn an_operation_id_that_is_none_is_refused(ground: Ground) {
    let tidelock = ground.open().await;
    let stock = tidelock.aggregate::<Stock>("tea");
    for id in ["", "a\nb", &"x".repeat(600)] {
        let refused = stock.operation_id(id).execute(receive(1)).await.unwrap_err();
        assert!(matches!(refused, ExecuteError::Store(_)), "{refused}");
    }
    assert_eq!(stock.load().await.unwrap().version, None);
    let unnamed = stock
        .operation_id("ok")
        .execute(|_| Ok::<_, String>(StockEvent::Received { units: 1 }))
        .await;
    unnamed.unwrap();
}
