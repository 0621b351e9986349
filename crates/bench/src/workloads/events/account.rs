//! The aggregate of the benchmarks.

use std::convert::Infallible;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidelock::Event;
use tidelock::events::{Aggregate, Snapshots};

/// Its state is small, so that Tidelock is measured.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Account {
    payments: u64,
}

/// As large as the events of the other workloads.
#[derive(Debug, Event)]
pub(super) struct Happened {
    note: Arc<str>,
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = Happened;

    fn apply(&mut self, _: &Happened) {
        self.payments += 1;
    }
}

/// The aggregate with snapshots.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Kept(Account);

impl Aggregate for Kept {
    const KIND: &'static str = "account";
    type Event = Happened;

    fn apply(&mut self, event: &Happened) {
        self.0.apply(event);
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(1)
    }
}

/// Padding for a payload of 200 bytes.
pub(super) fn note() -> Arc<str> {
    "x".repeat(189).into()
}

/// A decision that reads the state and never refuses.
pub(super) fn pay(account: &Account, note: &Arc<str>) -> Result<Option<Happened>, Infallible> {
    Ok((account.payments < u64::MAX).then(|| Happened { note: note.clone() }))
}

pub(super) fn many(events: usize) -> Vec<Happened> {
    let note = note();
    std::iter::repeat_with(|| Happened { note: note.clone() }).take(events).collect()
}
