//! The committer of a connection: takes what is queued and sends it as one statement.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::yield_now;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::ground::Ground;
use crate::failure::Failure;
use crate::rows;

/// At most this many commits travel together.
const BATCH: usize = 256;

/// Statements that are sent before anything is measured: the server plans the first five anew each time.
const WARMING: usize = 6;

/// How often a committer lets others go first before it takes the next batch.
const YIELDS: usize = 10;

/// A commit of one event that waits for its turn.
pub(super) struct Queued {
    pub(super) stream: String,
    pub(super) id: Uuid,
    pub(super) payload: Arc<str>,
    /// Told the position.
    pub(super) done: oneshot::Sender<i64>,
}

/// What the committers of a process take from.
pub(super) type Queue = Arc<Mutex<mpsc::UnboundedReceiver<Queued>>>;

/// What a committer did.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sent {
    pub(super) statements: u64,
    /// Commits that had to be sent again.
    pub(super) retried: u64,
}

pub(super) struct Committer {
    client: Client,
    append: Statement,
    queue: Queue,
    /// Taken from the queue, and still to be sent: their stream was in the batch already, or they have to be tried again.
    left: Vec<Queued>,
    /// See `let_callers_return`.
    yields: usize,
    sent: Sent,
}

impl Committer {
    /// A hasty one takes the next batch at once.
    pub(super) async fn new(ground: &Ground, queue: Queue, hasty: bool) -> Result<Self, Failure> {
        let client = ground.connect().await?;
        let append = client.prepare(ground.mechanism.sql().append).await?;
        let yields = if hasty { 0 } else { YIELDS };
        let committer = Self { client, append, queue, left: Vec::new(), yields, sent: Sent::default() };
        committer.warm().await?;
        Ok(committer)
    }

    async fn warm(&self) -> Result<(), Failure> {
        for _ in 0..WARMING {
            let (done, _) = oneshot::channel();
            let id = Uuid::now_v7();
            self.send(&[Queued { stream: format!("warming-{id}"), id, payload: "{}".into(), done }]).await?;
        }
        Ok(())
    }

    /// Until all callers are gone.
    pub(super) async fn run(mut self) -> Result<Sent, Failure> {
        loop {
            let batch = self.take().await;
            if batch.is_empty() {
                return Ok(self.sent);
            }
            let rows = self.send(&batch).await?;
            self.sent.statements += 1;
            self.answer(batch, &rows);
            self.let_callers_return().await;
        }
    }

    /// Most callers who were answered have something more to commit. Given the time to say so, they come along with the
    /// next statement; otherwise two halves of them would take turns for ever. A lone caller loses a microsecond.
    async fn let_callers_return(&self) {
        for _ in 0..self.yields {
            yield_now().await;
        }
    }

    /// What is queued, by name of stream so that no two committers wait for each other in a ring, and each stream once.
    async fn take(&mut self) -> Vec<Queued> {
        let mut waiting = mem::take(&mut self.left);
        if waiting.is_empty() {
            self.queue.lock().await.recv_many(&mut waiting, BATCH).await;
        } else if let Ok(mut queue) = self.queue.try_lock() {
            while waiting.len() < BATCH
                && let Ok(next) = queue.try_recv()
            {
                waiting.push(next);
            }
        }
        let batch;
        (batch, self.left) = each_stream_once(waiting);
        batch
    }

    async fn send(&self, batch: &[Queued]) -> Result<Vec<Row>, Failure> {
        let streams: Vec<_> = batch.iter().map(|commit| commit.stream.as_str()).collect();
        let ids: Vec<_> = batch.iter().map(|commit| commit.id).collect();
        let types = vec![rows::EVENT_TYPE; batch.len()];
        let payloads: Vec<_> = batch.iter().map(|commit| &*commit.payload).collect();
        let metadata = vec!["{}"; batch.len()];
        Ok(self.client.query(&self.append, &[&streams, &ids, &types, &payloads, &metadata]).await?)
    }

    fn answer(&mut self, batch: Vec<Queued>, rows: &[Row]) {
        let positions: HashMap<&str, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for commit in batch {
            match positions.get(commit.stream.as_str()) {
                // A caller that does not wait any more needs no answer.
                Some(position) => drop(commit.done.send(*position)),
                None => {
                    self.sent.retried += 1;
                    self.left.push(commit);
                }
            }
        }
    }
}

/// The first commit of each stream, sorted by name, and all others.
fn each_stream_once(mut waiting: Vec<Queued>) -> (Vec<Queued>, Vec<Queued>) {
    waiting.sort_by(|a, b| a.stream.cmp(&b.stream));
    let (mut batch, mut left) = (Vec::<Queued>::with_capacity(waiting.len()), Vec::new());
    for commit in waiting {
        let again = batch.last().is_some_and(|before| before.stream == commit.stream);
        if again { &mut left } else { &mut batch }.push(commit);
    }
    (batch, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_sorted_and_holds_each_stream_once() {
        let queued = |stream: &str| {
            let (done, _) = oneshot::channel();
            Queued { stream: stream.to_owned(), id: Uuid::nil(), payload: "{}".into(), done }
        };
        let names =
            |commits: &[Queued]| commits.iter().map(|c| c.stream.clone()).collect::<Vec<_>>().join(" ");
        let (batch, left) = each_stream_once(["b", "a", "b", "c", "a", "b"].map(queued).into());
        assert_eq!((names(&batch).as_str(), names(&left).as_str()), ("a b c", "a b b"));
    }
}
