//! An order as the front page of the library shows it: a handler whose unit of work goes through
//! every pattern and records the answer under the request's key.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tidelock::jobs::JobFilter;
use tidelock::prelude::*;
use tidelock::runs::RunFilter;
use tidelock_test_stage::{DyingStore, TestStore, on_every_store};
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};

use crate::client::{Reply, ask, request, without_key};
use crate::till::INSTANT;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    tea: String,
    units: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SendMail {
    to: String,
    order: String,
}

impl Job for SendMail {
    const QUEUE: &'static str = "mail";
}

const DELIVERY: Workflow<Order, String> = Workflow::new("delivery");

#[derive(Debug, Default, Clone)]
struct Stock {
    left: i64,
}

#[derive(Debug, Clone, Event)]
enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64 },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { units } => self.left -= units,
        }
    }
}

impl Stock {
    fn reserve(&self, units: i64) -> Result<StockEvent, std::io::Error> {
        match units <= self.left {
            true => Ok(StockEvent::Reserved { units }),
            false => Err(std::io::Error::other(format!("only {} left", self.left))),
        }
    }
}

async fn place(
    State(tidelock): State<Tidelock>,
    key: IdempotencyKey,
    Json(order): Json<Order>,
) -> tidelock::Result<Response> {
    let stock = tidelock.aggregate::<Stock>(&order.tea);
    let daily = tidelock.quota("orders", 20).of(&order.customer).per(Period::Day);
    let mail = SendMail { to: order.customer.clone(), order: order.id.clone() };
    let units = order.units;
    let placed = async |tx: Tx| -> tidelock::Result<Response> {
        tx.execute(&stock, move |stock: &Stock| stock.reserve(units)).await?;
        tx.take(&daily, 1).await?.granted()?;
        tx.enqueue(&mail).await?;
        tx.start(DELIVERY, &order.id, &order).version(1).await?;
        let answer = (StatusCode::CREATED, format!("order {}", order.id)).into_response();
        Ok(key.respond(&tx, answer).await?.into_response())
    };
    tidelock.transact(placed).await
}

fn app(tidelock: &Tidelock) -> Router {
    let keys = IdempotencyLayer::new(tidelock).required().lease(INSTANT);
    Router::new().route("/pay", post(place).layer(keys)).with_state(tidelock.clone())
}

async fn send(app: &Router, key: &str, units: i64) -> Reply {
    let order = Order { id: key.into(), customer: "ada".into(), tea: "assam".into(), units };
    let mut request = request(Method::POST, "/pay", key, &serde_json::to_string(&order).unwrap());
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    ask(app, request).await
}

/// What there is of orders: units left, draws, mails and deliveries.
async fn kept(tidelock: &Tidelock) -> (i64, i64, usize, usize) {
    let stock = tidelock.aggregate::<Stock>("assam").load().await.unwrap();
    let daily = tidelock.quota("orders", 20).of("ada").per(Period::Day).usage().await.unwrap();
    let mails = tidelock.jobs().list(&JobFilter::queue("mail")).all().await.unwrap();
    let runs = RunFilter::all().workflow("delivery");
    let runs = tidelock.runs().list(&runs).all().await.unwrap();
    (stock.left, daily.used, mails.len(), runs.len())
}

/// CLAIM-54, TX-1. Wherever a process dies, there is all of an order or nothing, and once.
async fn an_order_is_one_commit_with_its_answer(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let stock = tidelock.aggregate::<Stock>("assam");
    stock.append(StockEvent::Received { units: 100 }).await.unwrap();
    let mut orders = 0;
    for calls in 4..12 {
        for last_words in [false, true] {
            let (key, before) = (format!("order-{calls}-{last_words}"), kept(&tidelock).await);
            let mortal = DyingStore::over(tidelock.store().clone(), calls, last_words);
            send(&app(&Tidelock::over(mortal)), &key, 2).await;
            let after = kept(&tidelock).await;
            let all = (before.0 - 2, before.1 + 1, before.2 + 1, before.3 + 1);
            assert!(after == before || after == all, "{key}: {before:?}, {after:?}");
            orders += 1;
            until_answered(&tidelock, &key).await;
            assert!(send(&app(&tidelock), &key, 2).await.is_replay());
            assert_eq!(kept(&tidelock).await, all, "{key}");
        }
    }
    assert_eq!(kept(&tidelock).await, (100 - 2 * orders, orders, orders as usize, orders as usize));
}

async fn until_answered(tidelock: &Tidelock, key: &str) {
    tidelock_test_stage::until("there is an answer", async || {
        let reply = send(&app(tidelock), key, 2).await;
        let is_placed = reply.told() == (201, format!("order {key}").as_str());
        assert!(is_placed || reply.is_in_progress(), "{reply:?}");
        is_placed
    })
    .await;
}

/// CLAIM-54. A unit of work that is refused records no answer: the handler's own is kept.
async fn a_refused_order_is_answered_by_the_handler(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let reply = send(&app(&tidelock), "order-1", 2).await;
    assert_eq!(reply.status, 409, "{reply:?}");
    assert!(reply.body.contains("only 0 left"), "{reply:?}");
    assert_eq!(kept(&tidelock).await, (0, 0, 0, 0));
}

/// The key is extracted where one was claimed, and only there.
async fn a_handler_gets_the_key_of_its_request(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let fence = async |key: Option<IdempotencyKey>| match key {
        Some(key) => format!("{} {}", key.key(), key.fence().get() > 0),
        None => "none".to_owned(),
    };
    let required = async |key: IdempotencyKey| key.key().to_owned();
    let keys = IdempotencyLayer::new(&tidelock);
    let app = Router::new().route("/pay", post(fence).layer(keys));
    let with_key = || request(Method::POST, "/pay", "k", "");
    assert_eq!(ask(&app, with_key()).await.told(), (200, "idempotency/http::k true"));
    assert_eq!(ask(&app, without_key(Method::POST, "")).await.told(), (200, "none"));
    let reply = ask(&Router::new().route("/pay", post(required)), with_key()).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(reply.body.contains("key-missing"), "{reply:?}");
}

on_every_store!(
    an_order_is_one_commit_with_its_answer,
    a_refused_order_is_answered_by_the_handler,
    a_handler_gets_the_key_of_its_request,
);
