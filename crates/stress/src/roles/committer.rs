//! A worker that appends to streams which it shares with others, counts its commits, and wakes
//! items.
//!
//! Half of its appends expect the version that it has just read, and lose against whoever was
//! faster; half expect nothing. Some span two streams, in either order.

use std::sync::Arc;

use serde_json::json;
use tidelock::{
    Bounds, Commit, CommitId, CommitOutcome, ExpectedVersion, Head, HeadQuery, NewEvent,
    RecordWrite, StreamName, Version, Wake, When,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::caller::{Bug, Caller};
use crate::dice::Rng;
use crate::part::WorkerSpec;
use crate::pipe::Orders;

/// Stands in every payload, so that whoever watches the wire can tell a commit of events from other
/// traffic.
pub(crate) const WATERMARK: &str =
    "a payload of the stress test, neither long nor short, as payloads are";

pub(super) async fn work(
    part: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let mut callers = JoinSet::new();
    let mut dice = Rng::seeded(part.seed);
    for _ in 0..part.load.callers {
        let (part, caller, orders) = (part.clone(), caller.clone(), orders.clone());
        let committer = Committer { part, caller, dice: Rng::seeded(dice.next()) };
        callers.spawn(committer.commit_until_told(orders));
    }
    join(callers).await
}

struct Committer {
    part: Arc<WorkerSpec>,
    caller: Caller,
    dice: Rng,
}

impl Committer {
    async fn commit_until_told(mut self, orders: Orders) -> Result<(), Bug> {
        while !orders.is_finishing() {
            let chosen = self.choose();
            let commit = if self.dice.one_in(2) {
                self.decide_on_what_is_there(&chosen).await?
            } else {
                self.whatever_is_there(&chosen)
            };
            let outcome = self.caller.commit(&commit).await?;
            if matches!(outcome, CommitOutcome::Committed(_)) && self.dice.one_in(16) {
                // As if the answer had been lost. What is said of it must be what was said before.
                let _ = self.caller.commit_again(&commit).await?;
            }
            sleep(self.part.load.pause).await;
        }
        Ok(())
    }

    /// One stream, or sometimes two, in any order.
    fn choose(&mut self) -> Vec<u64> {
        let (one, other) =
            (self.dice.below(self.part.load.streams), self.dice.below(self.part.load.streams));
        if one != other && self.dice.one_in(4) { vec![one, other] } else { vec![one] }
    }

    /// A commit that is right for what is there now, and for nothing else.
    async fn decide_on_what_is_there(&mut self, chosen: &[u64]) -> Result<Commit, Bug> {
        let names: Vec<StreamName> = chosen.iter().map(|n| self.part.space.work(*n)).collect();
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
                .wake(Wake::to_mark(self.part.space.item(*n), mark.into()));
        }
        Ok(commit)
    }

    /// A commit that is right in any case; it does not know how far the work will reach.
    fn whatever_is_there(&mut self, chosen: &[u64]) -> Commit {
        let mut commit = self.counted(chosen);
        for n in chosen {
            commit = commit
                .append(&self.part.space.work(*n), ExpectedVersion::Any, self.events())
                .wake(Wake::at(self.part.space.item(*n), When::NOW));
        }
        commit
    }

    fn counted(&self, chosen: &[u64]) -> Commit {
        chosen.iter().fold(Commit::new().with_id(CommitId::fresh()), |commit, n| {
            commit.write(RecordWrite::add(&self.part.space.total(*n), 1, Bounds::NONE))
        })
    }

    fn events(&mut self) -> Vec<NewEvent> {
        let payload = json!({ "by": self.part.name, "note": WATERMARK });
        let event = || NewEvent::of("written", &payload).expect("a small payload and a short type");
        (0..=self.dice.below(3)).map(|_| event()).collect()
    }
}
