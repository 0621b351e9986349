//! The aggregate whose stream is closed, and its archive.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tidelock::events::{AggregateRef, Snapshots};
use tidelock::prelude::*;
use tidelock::store::StoredEvent;

/// An account that keeps a snapshot only when it is closed.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Event)]
pub(crate) struct Paid {
    pub(crate) amount: i64,
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = Paid;

    fn apply(&mut self, event: &Paid) {
        self.balance += event.amount;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::when(|_, _| false)
    }
}

pub(crate) fn pay(
    amount: i64,
) -> impl Fn(&Account) -> Result<Paid, Infallible> + Clone + Send + Sync + 'static {
    move |_| Ok(Paid { amount })
}

/// An account with so many payments of one.
pub(crate) async fn paid_into(tidelock: &Tidelock, payments: usize) -> AggregateRef<Account> {
    let account = tidelock.aggregate::<Account>("7");
    for _ in 0..payments {
        account.execute(pay(1)).await.unwrap();
    }
    account
}

/// What an archive received, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    events: Arc<Mutex<Vec<StoredEvent>>>,
}

impl Shelf {
    /// An archive function that stores everything here.
    pub(crate) fn archive(
        &self,
    ) -> impl Fn(Vec<StoredEvent>) -> std::future::Ready<Result<(), Infallible>> + Send + Sync + 'static
    {
        let events = self.events.clone();
        move |page| {
            events.lock().unwrap().extend(page);
            std::future::ready(Ok(()))
        }
    }

    /// The versions it received, in order.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.events.lock().unwrap().iter().map(|event| event.version.get()).collect()
    }

    /// The distinct versions it received.
    pub(crate) fn distinct(&self) -> Vec<u64> {
        let mut versions = self.versions();
        versions.sort_unstable();
        versions.dedup();
        versions
    }
}
