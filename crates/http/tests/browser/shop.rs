//! A shop to inspect: something of every pattern, created through the library.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidelock::AppBuilder;
use tidelock::claims::LockGuard;
use tidelock::prelude::*;
use tidelock::runs::RunStatus;
use tidelock::store::{
    Commit, ItemRef, LeaseRequest, Mark, NewEvent, QueueName, StoreExt, StreamName, Wake,
    WorkerName,
};
use tidelock_test_stage::{Running, brisk, until};

/// Would run if it were anything but text.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

/// The stock of an article.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stock {
    left: i64,
    orders: Vec<String>,
}

#[derive(Debug, Clone, Event)]
pub(crate) enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64, order: String },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { units, order } => {
                self.left -= units;
                self.orders.push(order.clone());
            }
        }
    }
}

/// A shop with data, and its program, which runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) tidelock: Tidelock,
    _running: Running,
    _lock: LockGuard,
}

impl Shop {
    /// Fills this store.
    pub(crate) async fn open(url: &str) -> Self {
        let tidelock = Tidelock::open(url).await.unwrap();
        let stock = tidelock.aggregate::<Stock>("sku-7");
        stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 9 })).await.unwrap();
        for order in ["order-1", "order-2", "order-3"] {
            let (metadata, order) =
                (Metadata::new().correlated("request-1").by("ada"), order.to_owned());
            let reserve = |_: &Stock| {
                Ok::<_, String>(StockEvent::Reserved { units: 2, order: order.clone() })
            };
            stock.decision().metadata(metadata).execute(reserve).await.unwrap();
        }
        for (order, address) in
            [("order-1", json!("Dock 1")), ("order-2", json!(null)), ("order-3", json!("Dock 3"))]
        {
            place(&tidelock, order, &json!({ "address": address, "note": HOSTILE })).await;
        }
        let running = Running::start(program(&tidelock));
        settled(&tidelock).await;
        Self::finish(tidelock, running).await
    }

    async fn finish(tidelock: Tidelock, running: Running) -> Self {
        tidelock
            .scope::<Value>(ScopeKind::SESSION, "s-4711")
            .patch(&json!({ "items": ["tea"], "cents": 450 }))
            .await
            .unwrap();
        let locking = tidelock
            .claims()
            .by("teller-1")
            .lock("till")
            .lease(Duration::from_secs(600))
            .acquire()
            .await
            .unwrap();
        let lock = locking.granted().unwrap();
        wake(&tidelock, "post", "parcel-1").await;
        hold(&tidelock, "post", "postman").await;
        Self { tidelock, _running: running, _lock: lock }
    }
}

/// Mails each order, and fails on one without an address; and a checkout that waits for approval.
fn program(tidelock: &Tidelock) -> AppBuilder {
    let mail = |order: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
        let placed: Value = order.payload.to()?;
        let Some(address) = placed["address"].as_str() else {
            return Err(HandlerError::fatal(format!("an order without an address {HOSTILE}")));
        };
        let mailed = NewEvent::of("mailed", &json!({ "to": address }))?;
        ctx.append_to(format!("mail-{}", order.stream), ExpectedVersion::Any, [mailed])?;
        Ok(())
    };
    let checkout = async |ctx: RunCtx, what: String| {
        ctx.step("charge", |_| async { Ok::<_, HandlerError>(450) }).await?;
        let approval: Value = ctx.wait_for_signal("approved").named("approval").await?;
        let shipped = format!("{what}: {approval}");
        ctx.step("ship", |_| async { Ok::<_, HandlerError>(shipped.clone()) }).await
    };
    tidelock
        .app()
        .worker(brisk("clerk"))
        .reaction("mail", on_any().in_streams("order-"), mail)
        .workflow("checkout", checkout)
}

/// Waits until the program has nothing left to do.
async fn settled(tidelock: &Tidelock) {
    tidelock
        .start("checkout", "checkout-1", "tea")
        .version(1)
        .attribute("customer", "ada")
        .metadata(Metadata::new().correlated("request-1"))
        .await
        .unwrap();
    until("the orders are mailed or blocked, and the checkout waits", async || {
        let targets = tidelock.reactions().list(&ReactionFilter::all()).all().await.unwrap();
        let waits = matches!(
            tidelock.runs().run("checkout-1").status().await.unwrap(),
            RunStatus::Waiting { .. }
        );
        waits
            && targets.len() == 3
            && targets.iter().all(|target| target.blocked || target.lag() == 0)
    })
    .await;
}

/// An order is placed.
pub(crate) async fn place(tidelock: &Tidelock, order: &str, placed: &Value) {
    let metadata = Metadata::new().correlated("request-1").by("ada").to_json().unwrap();
    let event = NewEvent::of("placed", placed).unwrap().with_metadata(metadata);
    let stream = StreamName::new(order).unwrap();
    tidelock
        .store()
        .append(&stream, ExpectedVersion::Any, vec![event])
        .await
        .unwrap()
        .committed()
        .unwrap();
}

async fn wake(tidelock: &Tidelock, queue: &str, key: &str) {
    let wake = Wake::to_mark(ItemRef::parse(queue, key).unwrap(), Mark::new(3).unwrap());
    tidelock.store().commit(Commit::new().wake(wake)).await.unwrap().committed().unwrap();
}

async fn hold(tidelock: &Tidelock, queue: &str, worker: &str) {
    let (queue, worker) = (QueueName::new(queue).unwrap(), WorkerName::new(worker).unwrap());
    let request = LeaseRequest::new(&queue, &worker, Duration::from_secs(600), 1);
    assert_eq!(tidelock.store().lease(request).await.unwrap().leases.len(), 1);
}
