//! Committer: appends to shared streams, counts its commits, and wakes items.
//!
//! Half of its appends expect the version that it has just read, and lose against faster ones; half
//! expect nothing. Some span two streams, in either order.

use std::sync::Arc;

use serde_json::json;
use tidelock::store::{
    Bounds, Commit, CommitId, CommitOutcome, Head, HeadQuery, NewEvent, RecordWrite, StreamName,
    Version, Wake,
};
use tidelock::{ExpectedVersion, When};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::caller::{Bug, Caller};
use crate::pipe::Orders;
use crate::rng::Rng;
use crate::worker_spec::WorkerSpec;

/// In every payload, so that the proxy can recognize a commit of events on the wire.
pub(crate) const WATERMARK: &str =
    "a payload of the stress test, neither long nor short, as payloads are";

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let mut callers = JoinSet::new();
    let mut rng = Rng::seeded(spec.seed);
    for _ in 0..spec.load.callers {
        let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
        let committer = Committer { spec, caller, rng: Rng::seeded(rng.next()) };
        callers.spawn(committer.commit_until_told(orders));
    }
    join(callers).await
}

struct Committer {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    rng: Rng,
}

impl Committer {
    async fn commit_until_told(mut self, orders: Orders) -> Result<(), Bug> {
        while !orders.is_finishing() {
            let chosen = self.choose();
            let commit = if self.rng.one_in(2) {
                self.decide_on_what_is_there(&chosen).await?
            } else {
                self.whatever_is_there(&chosen)
            };
            let outcome = self.caller.commit(&commit).await?;
            if matches!(outcome, CommitOutcome::Committed(_)) && self.rng.one_in(16) {
                // As if the answer had been lost. The second answer must equal the first.
                let _ = self.caller.commit_again(&commit).await?;
            }
            sleep(self.spec.load.pause).await;
        }
        Ok(())
    }

    /// One stream, or sometimes two, in any order.
    fn choose(&mut self) -> Vec<u64> {
        let (one, other) =
            (self.rng.below(self.spec.load.streams), self.rng.below(self.spec.load.streams));
        if one != other && self.rng.one_in(4) { vec![one, other] } else { vec![one] }
    }

    /// A commit that fits the current state, and no other.
    async fn decide_on_what_is_there(&mut self, chosen: &[u64]) -> Result<Commit, Bug> {
        let names: Vec<StreamName> = chosen.iter().map(|n| self.spec.space.work(*n)).collect();
        let read = || self.caller.store.heads(HeadQuery::Named(names.clone()));
        let heads = self.caller.insist("heads", read).await?.heads;
        let mut commit = self.counted(chosen);
        for (n, Head { stream, state, .. }) in chosen.iter().zip(heads) {
            let events = self.events();
            let more = events.len() as u64;
            let version = state.version();
            let mark = version.map_or(Version::FIRST.plus(more - 1), |version| version.plus(more));
            let expected = version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
            commit = commit
                .append(&stream, expected, events)
                .wake(Wake::to_mark(self.spec.space.item(*n), mark.into()));
        }
        Ok(commit)
    }

    /// A commit that fits any state; it does not know the mark of the work.
    fn whatever_is_there(&mut self, chosen: &[u64]) -> Commit {
        let mut commit = self.counted(chosen);
        for n in chosen {
            commit = commit
                .append(&self.spec.space.work(*n), ExpectedVersion::Any, self.events())
                .wake(Wake::at(self.spec.space.item(*n), When::NOW));
        }
        commit
    }

    fn counted(&self, chosen: &[u64]) -> Commit {
        chosen.iter().fold(Commit::new().with_id(CommitId::fresh()), |commit, n| {
            commit.write(RecordWrite::add(&self.spec.space.total(*n), 1, Bounds::NONE))
        })
    }

    fn events(&mut self) -> Vec<NewEvent> {
        let payload = json!({ "by": self.spec.name, "note": WATERMARK });
        let event = || NewEvent::of("written", &payload).expect("a small payload and a short type");
        (0..=self.rng.below(3)).map(|_| event()).collect()
    }
}
