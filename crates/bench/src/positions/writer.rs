//! The writing process: callers who commit one event after the other, and wait for each. The experiment starts this
//! binary again for it, once per process of a scenario, tells it when to go, and reads what it did from its output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{JoinHandle, block_in_place};
use uuid::Uuid;

use super::committer::{Committer, Queued, Sent};
use super::ground::Ground;
use crate::args::WriterArgs;
use crate::child::{be_told, say_ready};
use crate::clock::now;
use crate::failure::Failure;
use crate::report::write_line;
use crate::rows;

/// A stream of a caller's own gets this many events, and then comes the next one.
const STREAM_LENGTH: u64 = 8;

/// What a process did.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    /// When it began, in microseconds of the machine's clock, which all processes share.
    pub(super) begun: u64,
    pub(super) acks: Vec<Ack>,
    pub(super) statements: u64,
    pub(super) retried: u64,
}

/// One commit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Ack {
    pub(super) position: i64,
    /// When its caller knew, in microseconds of the machine's clock.
    pub(super) at: u64,
    /// How long its caller waited, in microseconds.
    pub(super) took: u64,
}

/// Runs the process.
pub(crate) async fn write(args: &WriterArgs) -> Result<(), Failure> {
    let url = block_in_place(be_told)?.unwrap_or_default();
    let ground = Ground { url, mechanism: args.mechanism };
    let (queue, taken) = mpsc::unbounded_channel();
    let taken = Arc::new(Mutex::new(taken));
    let mut committers = Vec::new();
    for _ in 0..args.connections {
        committers.push(Committer::new(&ground, taken.clone(), args.hasty).await?);
    }
    say_ready()?;
    block_in_place(be_told)?;
    let written = commit_all(args, queue, committers).await?;
    Ok(write_line(&serde_json::to_string(&written).expect("numbers are JSON"))?)
}

async fn commit_all(
    args: &WriterArgs,
    queue: mpsc::UnboundedSender<Queued>,
    committers: Vec<Committer>,
) -> Result<Written, Failure> {
    let begun = now();
    let committers: Vec<_> = committers.into_iter().map(|committer| tokio::spawn(committer.run())).collect();
    let callers: Vec<_> = (0..args.callers).map(|number| Caller::new(args, number, &queue)).collect();
    drop(queue);
    let callers: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(caller.run())).collect();
    let mut acks = Vec::new();
    for caller in callers {
        acks.extend(caller.await.map_err(|e| Failure::Answer(e.to_string()))?);
    }
    let sent = all_sent(committers).await?;
    Ok(Written { begun, acks, statements: sent.statements, retried: sent.retried })
}

async fn all_sent(committers: Vec<JoinHandle<Result<Sent, Failure>>>) -> Result<Sent, Failure> {
    let mut all = Sent::default();
    for committer in committers {
        let sent = committer.await.map_err(|e| Failure::Answer(e.to_string()))??;
        all.statements += sent.statements;
        all.retried += sent.retried;
    }
    Ok(all)
}

struct Caller {
    queue: mpsc::UnboundedSender<Queued>,
    /// No other caller of the run has it, in this slice or another.
    name: String,
    number: usize,
    /// How many streams all callers share; none: each has its own.
    shared: Option<usize>,
    payload: Arc<str>,
    commits: u64,
    end: Instant,
}

impl Caller {
    fn new(args: &WriterArgs, number: usize, queue: &mpsc::UnboundedSender<Queued>) -> Self {
        Self {
            queue: queue.clone(),
            name: format!("stream-{}-{number:03}", args.name),
            number,
            shared: args.shared,
            payload: rows::payload().into(),
            commits: args.commits.unwrap_or(u64::MAX),
            end: Instant::now() + args.seconds,
        }
    }

    /// Until the time is over, the commits are made, or the committer failed and says why itself.
    async fn run(self) -> Vec<Ack> {
        let mut acks = Vec::new();
        for made in 0..self.commits {
            let before = Instant::now();
            if before >= self.end {
                break;
            }
            let Some(position) = self.commit(made).await else { break };
            acks.push(Ack { position, at: now(), took: micros(before.elapsed()) });
        }
        acks
    }

    async fn commit(&self, made: u64) -> Option<i64> {
        let (done, answer) = oneshot::channel();
        let (stream, id, payload) = (self.stream(made), Uuid::now_v7(), self.payload.clone());
        self.queue.send(Queued { stream, id, payload, done }).ok()?;
        answer.await.ok()
    }

    fn stream(&self, made: u64) -> String {
        match self.shared {
            None => format!("{}-{}", self.name, made / STREAM_LENGTH),
            // Each caller goes through all of them, from a place of its own.
            Some(streams) => rows::stream_name((self.number * 7 + made as usize) % streams),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
