//! The commit queue, and the selection of the next batch.
//!
//! Whether the queue is open is decided here too, under the same lock: no commit can join a queue
//! that is no longer served.

use std::collections::VecDeque;

use tidelock_store::{Commit, CommitOutcome, Result};
use tokio::sync::oneshot;

use super::CommitPath;

/// The most commits per batch.
const BATCH: usize = 256;

/// The most load per batch, unless a single commit is more: in events, or in parts of commits that
/// are none.
const LOAD: usize = 160;

/// The most bytes of JSON per batch, unless a single commit has more.
const BATCH_BYTES: usize = 4 << 20;

/// A shorter queue is not searched for abandoned commits.
const LEAST_TO_TIDY: usize = 256;

#[derive(Debug)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// Of all jobs together.
    load: usize,
    closed: bool,
    /// The length at which abandoned commits are removed.
    tidy_at: usize,
}

/// A queued commit.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) commit: Commit,
    pub(super) path: CommitPath,
    pub(super) reply: oneshot::Sender<Result<CommitOutcome>>,
    bytes: usize,
    load: usize,
}

/// The next action of a lane's task.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Vec<Job>),
    /// Wait for more.
    Wait,
    /// End: the queue is closed and empty.
    End,
}

impl Job {
    pub(super) fn new(
        commit: Commit,
        path: CommitPath,
        reply: oneshot::Sender<Result<CommitOutcome>>,
    ) -> Self {
        let events: usize = commit.appends.iter().map(|append| append.events.len()).sum();
        // A new record takes the server about a third of the time of an event.
        let others = commit.parts() - commit.writes.len() / 2;
        Self { bytes: commit.bytes(), load: events.max(others), commit, path, reply }
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { jobs: VecDeque::new(), load: 0, closed: false, tidy_at: LEAST_TO_TIDY }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether the queue is empty and open.
    pub(super) fn is_free(&self) -> bool {
        self.jobs.is_empty() && !self.closed
    }

    /// Accepts no more commits. Queued ones are still served.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns the load that is queued now; none if the queue is closed.
    pub(super) fn push(&mut self, job: Job) -> Option<usize> {
        if self.closed {
            return None;
        }
        if self.jobs.len() >= self.tidy_at {
            self.drop_abandoned();
        }
        self.load += job.load;
        self.jobs.push_back(job);
        Some(self.load)
    }

    /// The next action for a lane with this least load.
    pub(super) fn next(&mut self, least: usize) -> Next {
        let batch = self.take(least);
        match (batch.is_empty(), self.closed) {
            (false, _) => Next::Batch(batch),
            (true, false) => Next::Wait,
            (true, true) => Next::End,
        }
    }

    /// While the server does not answer, callers that give up and retry would fill the memory with
    /// abandoned commits.
    fn drop_abandoned(&mut self) {
        self.jobs.retain(|job| !job.is_abandoned());
        self.load = self.jobs.iter().map(|job| job.load).sum();
        self.tidy_at = (2 * self.jobs.len()).max(LEAST_TO_TIDY);
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.load -= job.load;
        Some(job)
    }

    /// Takes a batch, if there is enough load. Abandoned commits are dropped.
    fn take(&mut self, least: usize) -> Vec<Job> {
        let (mut batch, mut bytes, mut load) = (Vec::new(), 0, 0);
        if self.load < least {
            return batch;
        }
        while let Some(job) = self.jobs.front() {
            // A trim makes event ids available again, which the other commits of its batch could
            // not know.
            let own_batch = !job.commit.trims.is_empty();
            let full = batch.len() == BATCH
                || bytes + job.bytes > BATCH_BYTES
                || load + job.load > LOAD
                || own_batch;
            if full && !batch.is_empty() {
                break;
            }
            let Some(job) = self.pop() else { break };
            if job.is_abandoned() {
                continue;
            }
            bytes += job.bytes;
            load += job.load;
            batch.push(job);
            if own_batch {
                break;
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use tidelock_store::{ExpectedVersion, NewEvent, StreamName};

    use super::*;

    type Answer = oneshot::Receiver<Result<CommitOutcome>>;

    fn job(events: usize) -> (Job, Answer) {
        let (reply, answer) = oneshot::channel();
        let events = (0..events).map(|nth| NewEvent::of("said", &nth).unwrap());
        let stream = StreamName::new("a").unwrap();
        let commit = Commit::new().append(&stream, ExpectedVersion::Any, events);
        (Job::new(commit, CommitPath::Append, reply), answer)
    }

    fn push(queue: &mut Queue, events: usize) -> Answer {
        let (job, answer) = job(events);
        queue.push(job).expect("it is open");
        answer
    }

    fn calls(next: Next) -> usize {
        match next {
            Next::Batch(batch) => batch.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn abandoned_commits_do_not_pile_up() {
        let mut queue = Queue::default();
        let waiting = push(&mut queue, 1);
        for _ in 0..100_000 {
            drop(push(&mut queue, 1));
            assert!(queue.len() <= LEAST_TO_TIDY);
        }
        assert_eq!(calls(queue.next(1)), 1);
        assert_eq!((queue.len(), queue.load), (0, 0));
        drop(waiting);
    }

    #[test]
    fn waiting_commits_are_kept_however_many_there_are() {
        let mut queue = Queue::default();
        let waiting: Vec<Answer> = (0..10 * LEAST_TO_TIDY).map(|_| push(&mut queue, 1)).collect();
        let served: usize = std::iter::from_fn(|| match queue.next(1) {
            Next::Batch(batch) => Some(batch.len()),
            _ => None,
        })
        .sum();
        assert_eq!(served, waiting.len());
    }

    /// A close and a commit can meet at any moment: the commit is served, or fails.
    #[test]
    fn a_commit_before_the_close_is_served_and_one_after_it_fails() {
        let mut queue = Queue::default();
        let early = push(&mut queue, 1);
        queue.close();
        assert!(queue.push(job(1).0).is_none());
        assert!(matches!(queue.next(2), Next::End), "it is left to those who begin with less");
        assert_eq!(calls(queue.next(1)), 1);
        assert!(matches!(queue.next(1), Next::End));
        drop(early);
    }

    #[test]
    fn a_large_commit_travels_alone_and_in_its_turn() {
        let mut queue = Queue::default();
        let waiting = [1, 1, LOAD + 1, 1].map(|events| push(&mut queue, events));
        let batches: Vec<usize> = (0..3).map(|_| calls(queue.next(1))).collect();
        assert_eq!(batches, [2, 1, 1]);
        assert!(matches!(queue.next(1), Next::Wait));
        drop(waiting);
    }
}
