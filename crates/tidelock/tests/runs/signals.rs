//! Signals, before they are received.

use tidelock::prelude::*;
use tidelock::runs::RunError;
use tidelock::store::{RawJson, StoreExt, StreamName};
use tidelock_test_stage::{TestStore, on_every_store};

use crate::client::idle;

on_every_store!(
    a_signal_is_kept_before_the_run_starts_and_refused_once_it_has_ended,
    a_signal_sent_twice_under_its_id_is_there_once,
    a_signal_that_is_written_otherwise_is_the_same,
);

async fn kept(tidelock: &Tidelock, run: &str) -> Vec<String> {
    let stream = StreamName::new(format!("~run/{run}")).unwrap();
    let events = tidelock.store().read_whole_stream(&stream).await.unwrap();
    let signals = events.iter().filter(|event| event.event_type.as_str() == "~signalled");
    let payload =
        |event: &tidelock::store::StoredEvent| event.payload.to::<serde_json::Value>().unwrap();
    signals.map(|event| payload(event)["payload"].to_string()).collect()
}

/// RUN-33. Schedule 40.
async fn a_signal_is_kept_before_the_run_starts_and_refused_once_it_has_ended(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    here.runs().run("r").signal("approve", &1).await.unwrap();
    there.runs().run("r").signal("approve", &2).await.unwrap();
    let run = idle(&there, "r").await;
    run.signal("approve", &3).await.unwrap();
    assert_eq!(kept(&here, "r").await, ["1", "2", "3"], "in their order");
    run.terminate("enough").await.unwrap();
    let refused = here.runs().run("r").signal("approve", &4).await.unwrap_err();
    assert_eq!(refused.to_string(), r#"run "r": it is terminated, so it takes no more signals"#);
    assert_eq!(kept(&here, "r").await.len(), 3);
}

/// RUN-33. Schedule 41.
async fn a_signal_sent_twice_under_its_id_is_there_once(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let run = idle(&here, "r").await;
    let send = async |tidelock: &Tidelock, payload: u32| {
        tidelock.runs().run("r").signal("approve", &payload).id("s-1").await
    };
    send(&here, 1).await.unwrap();
    send(&there, 1).await.unwrap();
    assert_eq!(kept(&here, "r").await, ["1"]);
    let other = send(&there, 2).await.unwrap_err();
    assert!(matches!(&other, RunError::OtherSignal { id, .. } if id == "s-1"), "{other}");
    run.terminate("enough").await.unwrap();
    send(&there, 1).await.expect("a repeated signal is not refused");
    let other = send(&there, 2).await.unwrap_err();
    assert!(matches!(&other, RunError::OtherSignal { id, .. } if id == "s-1"), "{other}");
    let other = here.runs().run("r").signal("reject", &1).id("s-1").await.unwrap_err();
    assert!(matches!(other, RunError::OtherSignal { .. }), "another name: {other}");
    assert_eq!(kept(&here, "r").await, ["1"]);
}

/// RUN-33. White space and key order do not count, before the end of the run and after it.
async fn a_signal_that_is_written_otherwise_is_the_same(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let run = idle(&tidelock, "r").await;
    let send = async |payload: &str| {
        run.signal("approve", &RawJson::parse(payload).unwrap()).id("s-1").await.unwrap();
    };
    send(r#"{"by":"ada","at":7}"#).await;
    send(r#"{ "at": 7, "by": "ada" }"#).await;
    run.terminate("enough").await.unwrap();
    send(r#"{ "at": 7, "by": "ada" }"#).await;
    assert_eq!(kept(&tidelock, "r").await.len(), 1);
}
