//! A small history in which everything happens once, and its correct evidence.

use std::sync::Arc;
use std::time::Duration;

use tidelock::store::{
    Bounds, Commit, CommitId, FeedQuery, Fence, Lease, LeaseRequest, ManualClock, Mark,
    MemoryStore, NewEvent, Position, RecordWrite, Settlement, Store, StoreExt, Version, Wake,
    WorkerName,
};
use tidelock::{ExpectedVersion, Timestamp, When};

use crate::caller::Caller;
use crate::evidence::{End, Evidence};
use crate::journal::{self, Entry, Journal};
use crate::reaction::{Handled, Reaction};
use crate::roles::Drained;
use crate::space::Space;
use crate::trouble::Trouble;
use crate::worker_spec::Load;

pub(super) const LEASE: Duration = Duration::from_secs(30);
const WORKERS: [&str; 4] = ["committer", "dead", "consumer", "follower"];
// The indexes of the workers in all lists.
pub(super) const COMMITTER: usize = 0;
pub(super) const DEAD: usize = 1;
pub(super) const CONSUMER: usize = 2;
pub(super) const FOLLOWER: usize = 3;

/// A store and workers in one process, with a manual clock.
pub(super) struct Sample {
    pub(super) store: Arc<MemoryStore>,
    clock: ManualClock,
    pub(super) space: Space,
    pub(super) callers: Vec<Caller>,
}

impl Sample {
    fn new(folder: &std::path::Path) -> Self {
        let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000).unwrap());
        let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let caller = |name: &str| {
            let journal = Arc::new(Journal::begin(&folder.join(name)).unwrap());
            Caller::new(store.clone(), journal, LEASE)
        };
        Self { callers: WORKERS.map(caller).into(), store, clock, space: Space::fresh() }
    }

    /// Two events for one stream, then one for each of two.
    async fn write(&self) {
        let caller = &self.callers[COMMITTER];
        let first = self
            .commit(&[0])
            .append(&self.space.work(0), ExpectedVersion::NoStream, [event(), event()])
            .wake(Wake::to_mark(self.space.item(0), Mark::new(2).unwrap()));
        caller.commit(&first).await.unwrap().committed().unwrap();
        self.clock.advance(LEASE);
        let late =
            self.commit(&[0]).append(&self.space.work(0), ExpectedVersion::NoStream, [event()]);
        assert!(caller.commit(&late).await.unwrap().conflict().is_some());
        let second = [0, 1].iter().fold(self.commit(&[0, 1]), |commit, n| {
            commit
                .append(&self.space.work(*n), ExpectedVersion::Any, [event()])
                .wake(Wake::at(self.space.item(*n), When::NOW))
        });
        self.commit_in_doubt(&second).await;
    }

    /// A commit that happens, but whose answer is lost.
    async fn commit_in_doubt(&self, commit: &Commit) {
        let caller = &self.callers[COMMITTER];
        caller.note(&Entry::Try(commit.clone()));
        self.store.commit(commit.clone()).await.unwrap().committed().unwrap();
        let trouble = Trouble::gave_up_after(LEASE);
        caller.note(&Entry::Failed { id: commit.id.unwrap(), trouble });
        self.clock.advance(LEASE);
        caller.commit_again(commit).await.unwrap().committed().unwrap();
    }

    fn commit(&self, streams: &[u64]) -> Commit {
        let commit = Commit::new().with_id(CommitId::fresh());
        let count = |commit: Commit, n: &u64| {
            commit.write(RecordWrite::add(&self.space.total(*n), 1, Bounds::NONE))
        };
        streams.iter().fold(commit, count)
    }

    /// One worker leases an item and is late; another takes over and does the work.
    async fn drain(&self) {
        let lost = self.lease(DEAD, 1).await.pop().unwrap();
        self.clock.advance(LEASE);
        for lease in self.lease(CONSUMER, 9).await {
            assert!(self.settle(CONSUMER, &lease).await);
        }
        self.callers[DEAD].note(&Entry::Late(lost.token()));
        assert!(!self.settle(DEAD, &lost).await);
    }

    async fn lease(&self, who: usize, limit: usize) -> Vec<Lease> {
        let worker = WorkerName::new(WORKERS[who]).unwrap();
        let request = LeaseRequest::new(&self.space.queue(), &worker, LEASE, limit);
        self.callers[who].lease(&request).await.unwrap().leases
    }

    async fn settle(&self, who: usize, lease: &Lease) -> bool {
        let through = if lease.item == self.space.item(0) { 3 } else { 1 };
        let drained =
            Drained { after: lease.at, through: Mark::new(through).unwrap(), fence: lease.fence };
        let event = NewEvent::of("drained", &drained).unwrap();
        let commit = Commit::new()
            .with_id(CommitId::fresh())
            .append(&self.space.done_of(&lease.item), ExpectedVersion::Any, [event])
            .settle(Settlement::ack(lease.token(), drained.through));
        self.callers[who].commit(&commit).await.unwrap().committed().is_ok()
    }

    /// Every event handled by each reaction, one of them with two effects.
    async fn react(&self) {
        let page = self.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
        let work = page.events.iter().filter(|event| self.space.is_work(&event.stream));
        for (event, reaction) in
            work.flat_map(|event| Reaction::ALL.map(|reaction| (event, reaction)))
        {
            let effect = Entry::Effect {
                reaction,
                event: event.id,
                key: format!("{reaction:?} {}", event.id),
            };
            let first = event.version == Version::FIRST && event.stream == self.space.work(0);
            self.callers[DEAD].note(&effect);
            (first && reaction == Reaction::Own).then(|| self.callers[CONSUMER].note(&effect));
            let stream = self.space.handled(reaction, &reaction.target(event));
            let handled = Handled { event: event.id, fence: Fence::new(1).unwrap() };
            let handled = NewEvent::of("handled", &handled).unwrap();
            let appended = self.store.append(&stream, ExpectedVersion::Any, vec![handled]).await;
            appended.unwrap().committed().unwrap();
        }
    }

    async fn follow(&self) {
        let page = self.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
        self.callers[FOLLOWER].note(&Entry::Seen(page.events));
    }
}

pub(super) fn event() -> NewEvent {
    NewEvent::of("written", "something").unwrap()
}

pub(super) fn correct() -> Evidence {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample::new(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        sample.write().await;
        sample.drain().await;
        sample.follow().await;
        sample.react().await;
        sample.run().await;
        sample.claim().await;
        sample.change().await;
        sample.close().await;
        let read =
            |name: &str| (name.to_owned(), journal::read(&folder.path().join(name)).unwrap());
        let ends = WORKERS.map(|name| (name.to_owned(), End::Told));
        let journals = WORKERS.map(read).into();
        let (caller, space) = (&sample.callers[COMMITTER], &sample.space);
        let load = Load {
            streams: 2,
            reacts: true,
            runs: true,
            closes: true,
            scopes: true,
            claims: true,
            ..Load::default()
        };
        Evidence::gather(caller, space, Position::START, &load, journals, ends.into())
            .await
            .unwrap()
    })
}
