//! Load: callers that commit continuously through one handle, and record what was acknowledged.
//!
//! Each has its own stream and retries every commit until it is answered, as a careful program
//! would. Half of them make plain appends, which are identified by the ids of their events; the
//! others also add to a record, under a commit id.

use std::sync::Arc;

use tidelock_store::{
    Bounds, Commit, CommitId, EventId, ExpectedVersion, Position, RecordKey, RecordWrite,
    RetryAdvice, Store, StreamName, Version,
};
use tidelock_store_postgres::PostgresStore;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ground::{event, soon, stream};

/// Attempts per commit to a server that is known to be up.
const TRIES: usize = 100;

/// The orders to the callers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Go,
    /// A caller that gets an error waits.
    Hold,
    /// A caller that has an answer ends.
    Stop,
}

/// The running callers.
pub(crate) struct Load {
    callers: JoinSet<Journal>,
    orders: watch::Sender<Order>,
    acknowledged: watch::Receiver<usize>,
}

impl Load {
    pub(crate) fn start(store: &PostgresStore, callers: usize) -> Self {
        let (orders, heard) = watch::channel(Order::Go);
        let (count, acknowledged) = watch::channel(0);
        let count = Arc::new(count);
        let caller = |nth| Caller {
            store: store.clone(),
            orders: heard.clone(),
            count: count.clone(),
            journal: Journal::new(nth),
        };
        Self { callers: (0..callers).map(|nth| caller(nth).work()).collect(), orders, acknowledged }
    }

    /// Waits until that many more commits have been acknowledged.
    pub(crate) async fn wait_for(&mut self, more: usize) {
        let goal = *self.acknowledged.borrow() + more;
        let reached = self.acknowledged.wait_for(|count| *count >= goal);
        soon("more commits", reached).await.expect("the callers are at work");
    }

    /// From now on a caller that gets an error waits before it retries.
    pub(crate) fn hold(&self) {
        self.orders.send_replace(Order::Hold);
    }

    pub(crate) fn go_on(&self) {
        self.orders.send_replace(Order::Go);
    }

    /// Lets every caller finish its commit.
    pub(crate) async fn stop(self) -> Vec<Journal> {
        self.orders.send_replace(Order::Stop);
        self.callers.join_all().await
    }
}

/// What one caller was told.
pub(crate) struct Journal {
    pub(crate) stream: StreamName,
    /// The record in which the caller counts its commits, if it does.
    pub(crate) counter: Option<RecordKey>,
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Errors after which nothing was written.
    pub(crate) failed: usize,
    /// Errors with an unknown outcome.
    pub(crate) unknown: usize,
}

/// An acknowledged event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) id: EventId,
    pub(crate) version: Version,
    pub(crate) position: Position,
}

impl Journal {
    fn new(nth: usize) -> Self {
        let counter = (nth % 2 == 1).then(|| RecordKey::new(format!("count-{nth}")).unwrap());
        let stream = stream(&format!("caller-{nth}"));
        Self { stream, counter, acknowledged: Vec::new(), failed: 0, unknown: 0 }
    }

    fn next_commit(&self) -> Commit {
        let expected = self
            .acknowledged
            .last()
            .map_or(ExpectedVersion::NoStream, |last| ExpectedVersion::Exact(last.version));
        let commit = Commit::new().append(&self.stream, expected, [event("noted")]);
        match &self.counter {
            Some(key) => {
                commit.with_id(CommitId::fresh()).write(RecordWrite::add(key, 1, Bounds::NONE))
            }
            None => commit,
        }
    }
}

struct Caller {
    store: PostgresStore,
    orders: watch::Receiver<Order>,
    count: Arc<watch::Sender<usize>>,
    journal: Journal,
}

impl Caller {
    async fn work(mut self) -> Journal {
        while *self.orders.borrow() != Order::Stop {
            let commit = self.journal.next_commit();
            let acknowledged = self.send(&commit).await;
            self.journal.acknowledged.push(acknowledged);
            self.count.send_modify(|count| *count += 1);
        }
        self.journal
    }

    async fn send(&mut self, commit: &Commit) -> Acknowledged {
        for _ in 0..TRIES {
            match self.store.commit(commit.clone()).await {
                Ok(outcome) => {
                    let committed =
                        outcome.committed().expect("no other caller writes to this stream");
                    let (appended, event) = (&committed.appends[0], &commit.appends[0].events[0]);
                    let position = appended.positions.expect("an event was appended").0;
                    return Acknowledged { id: event.id, version: appended.version, position };
                }
                Err(error) => match error.advice() {
                    RetryAdvice::Later => self.journal.failed += 1,
                    RetryAdvice::Unknown => self.journal.unknown += 1,
                    RetryAdvice::Never => panic!("{error}"),
                },
            }
            self.orders
                .wait_for(|order| *order != Order::Hold)
                .await
                .expect("the orders outlive us");
        }
        panic!("no answer to {commit:?}")
    }
}
