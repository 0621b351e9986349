//! What passes between the supervisor and a worker: orders one way, reports the other, a JSON
//! object a line.
//!
//! The first line that a worker gets is its part. A worker whose supervisor is gone has nobody to
//! work for and ends at once, so nothing is left running after a run that was itself killed.

use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tidelock::{Fence, LeaseToken};
use tokio::sync::{Semaphore, watch};

use crate::counts::Counts;

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// What was held back may go on.
    GoOn,
    /// Committers, changers and claimants end after what they have in hand, consumers, reactors and
    /// runners when nothing is left to do, followers at the feed's end.
    Finish,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// Has opened the store.
    Ready,
    /// So much was done by now.
    Did(Counts),
    /// Holds this and waits for what happens to it.
    Holding(Held),
    /// Cannot go on, and should have been able to.
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

/// Writes a line in one piece.
pub(crate) fn write(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// The next line; none at the end.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// Says something to the supervisor.
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
    /// Listens from now on.
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

    /// Waits for leave to go on; the order to finish is one.
    pub(crate) async fn wait_to_go_on(&self) {
        let mut finish = self.finish.clone();
        tokio::select! {
            permit = self.go_on.acquire() => permit.expect("nobody closes it").forget(),
            _ = finish.wait_for(|finish| *finish) => {}
        }
    }
}

/// Until there are no more.
fn take_orders(finish: &watch::Sender<bool>, go_on: &Semaphore) {
    let mut stdin = io::stdin().lock();
    while let Ok(Some(order)) = read(&mut stdin) {
        match order {
            Order::GoOn => go_on.add_permits(1),
            Order::Finish => drop(finish.send_replace(true)),
        }
    }
}
