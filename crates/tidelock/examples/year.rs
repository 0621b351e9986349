//! A year is closed: nothing more can be booked in it, every booking is in the archive, and the
//! account continues with its balance.
//!
//! Run it with `cargo run -p tidelock --example year`. It closes two accounts: one that continues,
//! and one that is closed permanently.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tidelock::ExecuteError;
use tidelock::events::Snapshots;
use tidelock::prelude::*;
use tidelock::store::StoredEvent;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Account {
    balance: i64,
}

#[derive(Debug, Event)]
enum AccountEvent {
    Booked { amount: i64 },
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = AccountEvent;

    fn apply(&mut self, event: &AccountEvent) {
        let AccountEvent::Booked { amount } = event;
        self.balance += amount;
    }

    // An account that continues without its events continues from a snapshot.
    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(1_000)
    }
}

fn book(amount: i64) -> impl Fn(&Account) -> Result<AccountEvent, Infallible> {
    move |_| Ok(AccountEvent::Booked { amount })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let tidelock = Tidelock::open("memory:").await?;
    // In production: a bucket, a tape, another database. It returns once the events are durable
    // there.
    let archive: Arc<Mutex<Vec<StoredEvent>>> = Arc::default();
    let shelf = archive.clone();
    let store_away = move |events: Vec<StoredEvent>| {
        let shelf = shelf.clone();
        async move {
            shelf.lock().map_err(|_| "the shelf fell down")?.extend(events);
            Ok::<_, &str>(())
        }
    };

    let ada = tidelock.aggregate::<Account>("ada");
    for amount in [100, -30, 12] {
        ada.execute(book(amount)).await?;
    }
    let closed = ada.archive_to(store_away.clone()).restart().await?;
    println!("{}: {} bookings are in the archive", closed.stream, closed.archived);

    let new_year = ada.execute(book(8)).await?;
    println!(
        "the first booking of the new year has version {}",
        new_year.version.ok_or("it was appended")?
    );
    let after = ada.load().await?;
    println!(
        "the balance is {}, of {} booking in the books",
        after.balance,
        ada.history().await?.len()
    );
    assert_eq!((after.balance, ada.history().await?.len()), (90, 1));

    let bob = tidelock.aggregate::<Account>("bob");
    bob.execute(book(1)).await?;
    bob.archive_to(store_away).close().await?;
    match bob.execute(book(1)).await {
        Err(refused @ ExecuteError::Closed { .. }) => println!("{refused}"),
        other => return Err(format!("a closed account took a booking: {other:?}").into()),
    }
    assert_eq!(archive.lock().map_err(|_| "the shelf fell down")?.len(), 4);
    Ok(())
}
