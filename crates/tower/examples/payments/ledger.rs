//! The clients' receipts, and their comparison with the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tidelock::prelude::*;
use tidelock::store::StoreExt;
use tokio::sync::Notify;

use super::Result;
use super::server::{Paid, stream};

/// What the clients have received.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Amount and receipt, by key.
    paid: Mutex<BTreeMap<String, (u64, String)>>,
    more: Notify,
    closed: AtomicBool,
    retries: AtomicUsize,
    broken_off: AtomicUsize,
    hung_up: AtomicUsize,
}

impl Ledger {
    pub(crate) fn note_paid(&self, key: String, amount: u64, receipt: String) {
        self.paid.lock().insert(key, (amount, receipt));
        self.more.notify_one();
    }

    pub(crate) fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_broken_off(&self) {
        self.broken_off.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_hung_up(&self) {
        self.hung_up.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests had their connection broken.
    pub(crate) fn broken_off(&self) -> usize {
        self.broken_off.load(Ordering::Relaxed)
    }

    /// Waits until so many more payments have a receipt.
    pub(crate) async fn until_paid_more(&self, payments: usize) {
        let goal = self.count() + payments;
        while self.count() < goal {
            self.more.notified().await;
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn count(&self) -> usize {
        self.paid.lock().len()
    }

    /// Compares the receipts with the store: one payment per key, the one of the receipt.
    pub(crate) async fn audit(&self, tidelock: &Tidelock, kills: usize) -> Result<String> {
        let events = tidelock.store().read_whole_stream(&stream()?).await?;
        let mut known = self.paid.lock().clone();
        let payments = known.len();
        for event in &events {
            let paid: Paid = event.payload.to()?;
            let key = paid.key.rsplit(':').next().unwrap_or_default();
            let receipt = known
                .remove(key)
                .ok_or_else(|| format!("{} was paid twice, or has no receipt", paid.key))?;
            if receipt != (paid.amount, event.id.to_string()) {
                return Err(format!("{} has another receipt: {receipt:?}", paid.key).into());
            }
        }
        if let Some(key) = known.keys().next() {
            return Err(format!("{key} has a receipt, and was not paid").into());
        }
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (retries, broken_off, hung_up) =
            (count(&self.retries), count(&self.broken_off), count(&self.hung_up));
        Ok(format!(
            "{payments} keys, {} payments; {kills} servers killed, {broken_off} connections broken, \
             {hung_up} clients disconnected, {retries} told to retry",
            events.len()
        ))
    }
}
