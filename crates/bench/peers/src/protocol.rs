//! The line protocol of `tidelock-bench`, and what a peer has to do for it.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, block_in_place};

use crate::Result;
use crate::counted::{counted, now};

/// Where a peer has its tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
}

/// A job queue.
pub(crate) trait Peer: Sized {
    type Enqueuer: Enqueuer;

    /// A handle for one caller.
    fn enqueuer(&self) -> Self::Enqueuer;

    /// Begins to work jobs off.
    async fn work(&mut self) -> Result<()>;

    /// Stops when all jobs that were begun are completed.
    async fn stop(self) -> Result<()>;
}

/// A caller of a job queue.
pub(crate) trait Enqueuer: Send + 'static {
    /// Enqueues one job, as a program does that has one.
    fn enqueue(&self) -> impl Future<Output = Result<()>> + Send;

    /// Enqueues jobs in one call.
    fn enqueue_all(&self, jobs: usize) -> impl Future<Output = Result<()>> + Send;
}

/// The most jobs in one call of a fill.
const FILL_AT_ONCE: usize = 5_000;

/// Calls of one slice. Times are in microseconds.
#[derive(Debug, Serialize)]
struct Done {
    begun: u64,
    ended: u64,
    ops: u64,
    times: Vec<u64>,
}

/// A payload with as many bytes as that of Tidelock.
pub(crate) fn note() -> String {
    "x".repeat(189)
}

/// Answers one line after the other, until the end of the input or a `stop`.
pub(crate) async fn serve<P: Peer>(open: impl AsyncFnOnce(Place) -> Result<P>) -> Result<()> {
    let Some(first) = hear()? else { return Ok(()) };
    let mut peer = open(serde_json::from_str(&first)?).await?;
    say("ready")?;
    while let Some(line) = hear()? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["enqueue", callers, batch, micros] => {
                let (callers, batch) = (callers.parse()?, batch.parse()?);
                let slice = Duration::from_micros(micros.parse()?);
                say_json(&enqueue(&peer, callers, batch, slice).await?)?;
            }
            ["fill", jobs] => {
                fill(&peer, jobs.parse()?).await?;
                say("filled")?;
            }
            ["work"] => {
                peer.work().await?;
                say("working")?;
            }
            ["count"] => say_json(&counted())?,
            ["stop"] => {
                peer.stop().await?;
                return say_json(&counted());
            }
            _ => return Err(format!("unknown: {line}").into()),
        }
    }
    Ok(())
}

async fn enqueue<P: Peer>(peer: &P, callers: usize, batch: usize, slice: Duration) -> Result<Done> {
    let (begun, end) = (now(), Instant::now() + slice);
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        tasks.spawn(enqueue_until(peer.enqueuer(), batch, end));
    }
    let mut times = Vec::new();
    while let Some(caller) = tasks.join_next().await {
        times.extend(caller??);
    }
    Ok(Done { begun, ended: now(), ops: (times.len() * batch) as u64, times })
}

/// Makes one call after the other, and at least one; returns the time of each.
async fn enqueue_until(caller: impl Enqueuer, batch: usize, end: Instant) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    loop {
        let before = Instant::now();
        match batch {
            1 => caller.enqueue().await?,
            many => caller.enqueue_all(many).await?,
        }
        let after = Instant::now();
        times.push(u64::try_from((after - before).as_micros())?);
        if after >= end {
            return Ok(times);
        }
    }
}

async fn fill<P: Peer>(peer: &P, jobs: usize) -> Result<()> {
    let caller = peer.enqueuer();
    for from in (0..jobs).step_by(FILL_AT_ONCE) {
        caller.enqueue_all(FILL_AT_ONCE.min(jobs - from)).await?;
    }
    Ok(())
}

fn hear() -> Result<Option<String>> {
    let mut line = String::new();
    let bytes = block_in_place(|| io::stdin().lock().read_line(&mut line))?;
    Ok((bytes > 0).then(|| line.trim_end().to_owned()))
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn say_json(answer: &impl Serialize) -> Result<()> {
    say(&serde_json::to_string(answer)?)
}
