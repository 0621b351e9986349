//! An order as a saga: completed steps are compensated when the order cannot be completed.
//!
//! Stock is reserved in the store itself, exactly once; the card is charged outside, under an
//! idempotency key that is the same in every attempt; the parcel goes to a carrier that refuses
//! some addresses. On a refusal the charge is refunded and the stock is released, in reverse order,
//! and the run ends as failed, with all of that in its history.
//!
//! ```sh
//! cargo run -p tidelock --example saga                          # in memory
//! cargo run -p tidelock --example saga -- sqlite:shop.db
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::runs::RunError;
use tidelock::store::{Bounds, Commit, RecordKey, RecordWrite, StoreExt};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const ORDER: Workflow<Order, String> = Workflow::new("order");

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    units: i64,
    cents: i64,
    address: String,
}

/// A bank that carries out each key once.
#[derive(Debug, Clone, Default)]
struct Bank {
    booked: Arc<Mutex<BTreeMap<String, i64>>>,
}

impl Bank {
    async fn book(&self, cents: i64, key: StepKey) -> Result<i64, HandlerError> {
        let mut booked = self.booked.lock().unwrap_or_else(PoisonError::into_inner);
        booked.entry(key.to_string()).or_insert(cents);
        Ok(cents)
    }

    fn balance(&self) -> i64 {
        self.booked.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

async fn place(ctx: RunCtx, order: Order, bank: Bank) -> Result<String> {
    ctx.transact("reserve", async |tx: Tx| tx.add("stock/tea", -order.units, 0..))
        .compensate(move |(), tx: Tx| async move { tx.add("stock/tea", order.units, ..) })
        .await?;

    ctx.step("charge", |key| bank.book(order.cents, key))
        .compensate({
            let bank = bank.clone();
            move |cents, key| {
                let bank = bank.clone();
                async move { bank.book(-cents, key).await.map(drop) }
            }
        })
        .await?;

    let label = ctx.step("ship", |_key| ship(&order.address)).await?;
    Ok(label)
}

/// The carrier does not serve the address, and a retry will not help.
async fn ship(address: &str) -> Result<String, HandlerError> {
    match address.contains("Island") {
        true => Err(HandlerError::fatal(format!("no ship goes to {address}"))),
        false => Ok(format!("parcel to {address}")),
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let url = std::env::args()
        .nth(1)
        .filter(|url| url.contains(':'))
        .unwrap_or_else(|| "memory:".to_owned());
    let tidelock = Tidelock::open(&url).await?;
    let stock = RecordKey::new("stock/tea")?;
    tidelock
        .store()
        .commit(Commit::new().write(RecordWrite::add(&stock, 10, Bounds::NONE)))
        .await?
        .committed()?;

    let bank = Bank::default();
    let orders = {
        let bank = bank.clone();
        move |ctx, order| place(ctx, order, bank.clone())
    };
    let app = tidelock.app().workflow(ORDER, orders).build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(app.run_until(async { drop(stopped.await) }));

    let near = Order { units: 2, cents: 700, address: "Dock 1".into() };
    let label = tidelock.start(ORDER, "order-1", &near).await?.result().await?;
    println!("order-1: {label}");
    assert_eq!((left(&tidelock, &stock).await?, bank.balance()), (8, 700));

    let far = Order { units: 3, cents: 900, address: "Far Island".into() };
    let failed = tidelock.start(ORDER, "order-2", &far).await?.result().await;
    let Err(RunError::Failed { failure, .. }) = failed else {
        return Err("it cannot be delivered".into());
    };
    println!("order-2: {}", failure.error);
    assert!(failure.compensated, "what was done was undone");
    assert_eq!(
        (left(&tidelock, &stock).await?, bank.balance()),
        (8, 700),
        "stock and money are back"
    );

    let _ended = stop.send(());
    running.await??;
    Ok(())
}

async fn left(tidelock: &Tidelock, stock: &RecordKey) -> Result<i64> {
    Ok(tidelock.store().get_one(stock).await?.into_live().ok_or("there is stock")?.value.to()?)
}
