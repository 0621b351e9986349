//! Work items, as they were: how far done, how far to go, due, held back, blocked.
//!
//! Only a settlement says how far an item is, and only a lease can be settled. So the items of a queue are woken in a lane of their own, leased
//! there, put in the lane that is theirs, and settled as they were. Nothing of it is noted before the settlement, and everything before it can
//! be repeated.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidelock::{
    Adjustment, Commit, Exit, Item, ItemFilter, ItemKey, LaneName, Lease, LeaseRequest, Mark, NamePattern,
    QueueName, Settlement, Store, Timestamp, Wake, When,
};
use tokio::time::Instant;

use super::import::in_the_way;
use super::keys;
use crate::failure::Failure;

/// How long one batch may take.
const LEASE: Duration = Duration::from_secs(60);

/// How long to look for what was just woken, and how often.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// Items of one queue.
#[derive(Debug)]
pub(super) struct Items {
    queue: QueueName,
    items: Vec<Item>,
}

impl Items {
    /// These items, which are not none.
    pub(super) fn new(queue: QueueName, items: Vec<Item>) -> Self {
        Self { queue, items }
    }

    /// Makes them; gives the commit that says how they were, for whoever notes something with it.
    pub(super) async fn make(self, store: &dyn Store) -> Result<Commit, Failure> {
        let lane = keys::lane()?;
        let wakes = self.items.iter().map(|item| {
            Wake::at(item.item.clone(), When::NOW).in_lane(lane.clone()).with_priority(item.priority)
        });
        let woken = wakes.fold(Commit::new(), Commit::wake);
        store.commit(woken).await?.committed().map_err(|conflict| in_the_way(&conflict))?;
        self.begin_anew(store, &lane).await?;
        let leases = self.lease(store, &lane).await?;
        self.put_in_lanes(store).await?;
        self.settled(&leases, store.now().await?)
    }

    /// An earlier try may have left them leased, and elsewhere.
    async fn begin_anew(&self, store: &dyn Store, lane: &LaneName) -> Result<(), Failure> {
        let all = || self.filter(self.items.iter().map(|item| &item.item.key));
        store.adjust(all(), Adjustment::Move { lane: lane.clone() }).await?;
        store.adjust(all(), Adjustment::Reset { to: Mark::ZERO }).await?;
        Ok(())
    }

    async fn lease(&self, store: &dyn Store, lane: &LaneName) -> Result<HashMap<ItemKey, Lease>, Failure> {
        let (worker, mut leases, begun) = (keys::worker()?, HashMap::new(), Instant::now());
        while leases.len() < self.items.len() {
            let limit = self.items.len() - leases.len();
            let leased =
                store.lease(LeaseRequest::new(&self.queue, &worker, LEASE, limit).in_lane(lane)).await?;
            if leased.leases.is_empty() {
                self.wait(begun).await?;
            }
            leases.extend(leased.leases.into_iter().map(|lease| (lease.item.key.clone(), lease)));
        }
        Ok(leases)
    }

    /// What was just woken may take a moment to be found; but if somebody else takes it, it never is.
    async fn wait(&self, begun: Instant) -> Result<(), Failure> {
        if begun.elapsed() > PATIENCE {
            return Err(Failure::refused(
                format!("items of queue {:?} are taken by somebody else while they are imported", self.queue),
                "stop all workers on this store, then the same command again",
            ));
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    async fn put_in_lanes(&self, store: &dyn Store) -> Result<(), Failure> {
        let mut lanes: BTreeMap<&LaneName, Vec<&ItemKey>> = BTreeMap::new();
        for item in &self.items {
            lanes.entry(&item.lane).or_default().push(&item.item.key);
        }
        for (lane, keys) in lanes {
            store.adjust(self.filter(keys), Adjustment::Move { lane: lane.clone() }).await?;
        }
        Ok(())
    }

    fn settled(&self, leases: &HashMap<ItemKey, Lease>, now: Timestamp) -> Result<Commit, Failure> {
        let settled = self.items.iter().try_fold(Commit::new(), |commit, item| {
            let lease = leases.get(&item.item.key)?;
            let settlement = Settlement { lease: lease.token(), done: Some(item.at), exit: exit(item, now) };
            let commit = commit.settle(settlement);
            Some(wake(item).into_iter().fold(commit, Commit::wake))
        });
        settled.ok_or_else(|| {
            Failure::Broken(format!("queue {:?}: a lease is on an item that was not asked for", self.queue))
        })
    }

    fn filter<'a>(&self, keys: impl IntoIterator<Item = &'a ItemKey>) -> ItemFilter {
        let keys = keys.into_iter().map(|key| key.as_str().to_owned()).collect();
        ItemFilter::queue(self.queue.as_str()).key(NamePattern::OneOf(keys))
    }
}

/// How the last lease ended, so that the item is as it was.
fn exit(item: &Item, now: Timestamp) -> Exit {
    let hold = item.hold.filter(|hold| *hold > now);
    match (&item.error, item.blocked) {
        (error, true) => Exit::Block { error: error.clone().unwrap_or_default() },
        (Some(error), false) => {
            Exit::Retry { after: hold.map_or(Duration::ZERO, |hold| hold.since(now)), error: error.clone() }
        }
        (None, false) => Exit::Ack { defer: hold.map(When::At) },
    }
}

/// What it has left to do.
fn wake(item: &Item) -> Option<Wake> {
    let mark = (item.mark > item.at).then_some(item.mark);
    let due = item.due.map(When::At);
    (mark.is_some() || due.is_some()).then(|| Wake {
        item: item.item.clone(),
        mark,
        due,
        lane: None,
        priority: None,
    })
}
