//! Schema evolution: events change their shape; stored ones do not.

use serde_json::{Value, json};
use tidelock::events::LoadError;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoreExt, StreamName, Version};

use crate::harness::{Ground, on_every_store};

on_every_store!(
    old_events_are_brought_up_to_date_while_they_are_read,
    an_unknown_event_is_named,
    an_event_of_the_wrong_shape_is_named,
);

#[derive(Debug, Default, Clone)]
struct Account {
    cents: i64,
}

#[derive(Debug, PartialEq, Event)]
enum AccountEvent {
    #[event(name = "paid_in", version = 3, was("deposited"), upcast(to_cents, with_currency))]
    PaidIn {
        cents: i64,
        currency: String,
    },
    Closed,
}

fn to_cents(mut old: Value) -> Value {
    old["cents"] = json!(old["euros"].as_i64().unwrap_or_default() * 100);
    old
}

fn with_currency(mut old: Value) -> Value {
    old["currency"] = json!("EUR");
    old
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = AccountEvent;

    fn apply(&mut self, event: &AccountEvent) {
        if let AccountEvent::PaidIn { cents, .. } = event {
            self.cents += cents;
        }
    }
}

async fn store_raw(ground: &Ground, event_type: &str, payload: Value) {
    let event = NewEvent::of(event_type, &payload).unwrap();
    let stream = StreamName::new("account-7").unwrap();
    let store = ground.store().await;
    store.append(&stream, ExpectedVersion::Any, vec![event]).await.unwrap().committed().unwrap();
}

/// EVT-11.
async fn old_events_are_brought_up_to_date_while_they_are_read(ground: Ground) {
    store_raw(&ground, "deposited", json!({ "euros": 1 })).await;
    store_raw(&ground, "paid_in", json!({ "euros": 2 })).await;
    store_raw(&ground, "paid_in@2", json!({ "cents": 300 })).await;
    let tidelock = ground.open().await;
    let account = tidelock.aggregate::<Account>("7");
    let pay = |cents| {
        move |_: &Account| Ok::<_, String>(AccountEvent::PaidIn { cents, currency: "EUR".into() })
    };
    account.execute(pay(400)).await.unwrap();
    assert_eq!(ground.open().await.aggregate::<Account>("7").load().await.unwrap().cents, 1_000);
    let euros = |cents| AccountEvent::PaidIn { cents, currency: "EUR".into() };
    let history: Vec<_> =
        account.history().await.unwrap().into_iter().map(|recorded| recorded.event).collect();
    assert_eq!(history, [euros(100), euros(200), euros(300), euros(400)]);

    let stored = ground.store().await.read_whole_stream(account.stream().unwrap()).await.unwrap();
    let types: Vec<_> = stored.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(
        types,
        ["deposited", "paid_in", "paid_in@2", "paid_in@3"],
        "and the log is as it was"
    );
    assert_eq!(stored[0].payload.as_str(), r#"{"euros":1}"#);
}

/// EVT-11.
async fn an_unknown_event_is_named(ground: Ground) {
    store_raw(&ground, "closed", json!({})).await;
    store_raw(&ground, "frozen", json!({ "secret": "hush" })).await;
    let tidelock = ground.open().await;
    let account = tidelock.aggregate::<Account>("7");
    let refused = account.load().await.unwrap_err();
    assert!(matches!(&refused, LoadError::Unreadable(unreadable) if unreadable.version.get() == 2));
    let message = refused.to_string();
    assert!(
        message.contains(r#"stream "account-7": version 2"#) && message.contains(r#""frozen""#),
        "{message}"
    );
    assert!(!message.contains("hush"), "{message}");
    let refused = account.execute(|_| Ok::<_, String>(AccountEvent::Closed)).await.unwrap_err();
    assert!(matches!(refused, ExecuteError::Load(LoadError::Unreadable(_))), "{refused}");
    let before = account.load_at_version(Version::FIRST).await.unwrap();
    assert_eq!(before.cents, 0, "what came before it can be read");
}

/// EVT-11.
async fn an_event_of_the_wrong_shape_is_named(ground: Ground) {
    store_raw(&ground, "paid_in@3", json!({ "cents": 1 })).await;
    let refused =
        ground.open().await.aggregate::<Account>("7").load().await.unwrap_err().to_string();
    assert!(
        refused.contains("version 1") && refused.contains("missing field `currency`"),
        "{refused}"
    );
}
