//! Line protocol between the supervisor and a worker: orders one way, reports the other, one JSON
//! object per line.
//!
//! The first line to a worker is its spec. A worker whose supervisor is gone ends at once, so that
//! nothing is left running after a killed run.

use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tidelock::store::{Fence, LeaseToken};
use tokio::sync::{Semaphore, watch};

use crate::counts::Counts;

/// An order to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Continue after a hold.
    GoOn,
    /// Committers, changers and claimants end after their current work; consumers, reactors and
    /// runners when nothing is left to do; followers at the feed's end.
    Finish,
}

/// A report of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The store is open.
    Ready,
    /// The progress so far.
    Counts(Counts),
    /// Holds this and waits.
    Holding(Held),
    /// Cannot continue, and should be able to.
    Failed(String),
}

/// What a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    /// Leases on items.
    Leases(Vec<LeaseToken>),
    /// A lock, under this fence.
    Lock { lock: u64, fence: Fence },
}

/// Writes a line in one write.
pub(crate) fn write(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Reads the next line; none at the end.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// Sends a report to the supervisor.
pub(crate) fn report(report: &Report) {
    if write(&mut io::stdout().lock(), report).is_err() {
        process::exit(ORPHANED);
    }
}

/// The exit code of a worker whose supervisor is gone.
const ORPHANED: i32 = 3;

/// The worker's end of the orders.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    finish: watch::Receiver<bool>,
    go_on: Arc<Semaphore>,
}

impl Orders {
    /// Starts listening.
    pub(crate) fn listen() -> Self {
        let (finish, finishing) = watch::channel(false);
        let go_on = Arc::new(Semaphore::new(0));
        let orders = Self { finish: finishing, go_on: go_on.clone() };
        thread::spawn(move || {
            take_orders(&finish, &go_on);
            process::exit(ORPHANED);
        });
        orders
    }

    pub(crate) fn is_finishing(&self) -> bool {
        *self.finish.borrow()
    }

    /// Waits for the order to finish.
    pub(crate) async fn wait_to_finish(&self) {
        // The end of the orders is the end of the process.
        let _ = self.finish.clone().wait_for(|finish| *finish).await;
    }

    /// Waits for the order to continue; the order to finish counts as one.
    pub(crate) async fn wait_to_go_on(&self) {
        let mut finish = self.finish.clone();
        tokio::select! {
            permit = self.go_on.acquire() => permit.expect("the semaphore is never closed").forget(),
            _ = finish.wait_for(|finish| *finish) => {}
        }
    }
}

/// Reads orders to their end.
fn take_orders(finish: &watch::Sender<bool>, go_on: &Semaphore) {
    let mut stdin = io::stdin().lock();
    while let Ok(Some(order)) = read(&mut stdin) {
        match order {
            Order::GoOn => go_on.add_permits(1),
            Order::Finish => drop(finish.send_replace(true)),
        }
    }
}
