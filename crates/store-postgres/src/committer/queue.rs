//! The commits that wait their turn, and what of them goes to the server next.
//!
//! Whether more may come is decided here too, under the same lock: nobody can join a queue that is
//! not served any more.

use std::collections::VecDeque;

use tidelock_store::{Commit, CommitOutcome, Result};
use tokio::sync::oneshot;

/// How many commits travel together at most.
const BATCH: usize = 256;

/// How much travels together, unless a single commit is more: in events, or parts of commits that
/// are none.
const LOAD: usize = 160;

/// How many bytes of JSON travel together, unless a single commit has more.
const BATCH_BYTES: usize = 4 << 20;

/// In a queue shorter than this nobody looks for those who have given up.
const SHORT: usize = 256;

#[derive(Debug)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// Of all jobs together.
    load: usize,
    closed: bool,
    /// How long the queue may get before those are thrown out who have given up.
    tidy_at: usize,
}

/// A commit that waits its turn.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) commit: Commit,
    /// It was refused on the short way.
    pub(super) refused: bool,
    pub(super) reply: oneshot::Sender<Result<CommitOutcome>>,
    bytes: usize,
    load: usize,
}

/// What there is to do for whoever serves the queue.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Vec<Job>),
    /// To wait until more has come.
    Wait,
    /// Nothing, ever.
    End,
}

impl Job {
    pub(super) fn new(
        commit: Commit,
        refused: bool,
        reply: oneshot::Sender<Result<CommitOutcome>>,
    ) -> Self {
        let events: usize = commit.appends.iter().map(|append| append.events.len()).sum();
        // A new record takes the server about a third of the time that an event does.
        let others = commit.parts() - commit.writes.len() / 2;
        Self { bytes: commit.bytes(), load: events.max(others), commit, refused, reply }
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { jobs: VecDeque::new(), load: 0, closed: false, tidy_at: SHORT }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nobody waits, and somebody may come.
    pub(super) fn is_free(&self) -> bool {
        self.jobs.is_empty() && !self.closed
    }

    /// Takes nothing more. What is there is still served.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Gives how much is queued now; nothing if it is closed.
    pub(super) fn push(&mut self, job: Job) -> Option<usize> {
        if self.closed {
            return None;
        }
        if self.jobs.len() >= self.tidy_at {
            self.throw_out_abandoned();
        }
        self.load += job.load;
        self.jobs.push_back(job);
        Some(self.load)
    }

    /// What is to be done by somebody for whom it takes so much to begin.
    pub(super) fn next(&mut self, least: usize) -> Next {
        let batch = self.take(least);
        match (batch.is_empty(), self.closed) {
            (false, _) => Next::Batch(batch),
            (true, false) => Next::Wait,
            (true, true) => Next::End,
        }
    }

    /// While the server does not answer, callers who give up and come again would fill the memory
    /// with what nobody waits for.
    fn throw_out_abandoned(&mut self) {
        self.jobs.retain(|job| !job.is_abandoned());
        self.load = self.jobs.iter().map(|job| job.load).sum();
        self.tidy_at = (2 * self.jobs.len()).max(SHORT);
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.load -= job.load;
        Some(job)
    }

    /// Takes what may travel together, if it is enough. Nobody waits for an answer to what was
    /// abandoned, so that stays behind.
    fn take(&mut self, least: usize) -> Vec<Job> {
        let (mut batch, mut bytes, mut load) = (Vec::new(), 0, 0);
        if self.load < least {
            return batch;
        }
        while let Some(job) = self.jobs.front() {
            // A trim lets event ids be used again, which the others of its batch could not know.
            let alone = !job.commit.trims.is_empty();
            let full = batch.len() == BATCH
                || bytes + job.bytes > BATCH_BYTES
                || load + job.load > LOAD
                || alone;
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
            if alone {
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
        (
            Job::new(Commit::new().append(&stream, ExpectedVersion::Any, events), false, reply),
            answer,
        )
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
    fn those_who_have_given_up_do_not_pile_up() {
        let mut queue = Queue::default();
        let waiting = push(&mut queue, 1);
        for _ in 0..100_000 {
            drop(push(&mut queue, 1));
            assert!(queue.len() <= SHORT);
        }
        assert_eq!(calls(queue.next(1)), 1);
        assert_eq!((queue.len(), queue.load), (0, 0));
        drop(waiting);
    }

    #[test]
    fn those_who_wait_are_kept_however_many_they_are() {
        let mut queue = Queue::default();
        let waiting: Vec<Answer> = (0..10 * SHORT).map(|_| push(&mut queue, 1)).collect();
        let served: usize = std::iter::from_fn(|| match queue.next(1) {
            Next::Batch(batch) => Some(batch.len()),
            _ => None,
        })
        .sum();
        assert_eq!(served, waiting.len());
    }

    /// The one who closes and the one who commits meet at any moment: it is served, or it is told.
    #[test]
    fn whoever_comes_before_the_end_is_served_and_whoever_comes_after_it_is_told() {
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
