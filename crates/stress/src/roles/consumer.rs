//! Consumer: leases items and drains their streams.
//!
//! It records what it drained in the commit that settles the lease: that is the effect which must
//! happen once. A consumer that is to be killed or stopped reports when it holds leases, and waits;
//! if it continues, it continues as if nothing had happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidelock::store::{
    Commit, CommitId, Fence, Lease, LeaseRequest, LeaseToken, Leased, Mark, NewEvent, Settlement,
    StreamQuery, Topic, Version, Wake, WorkerName,
};
use tidelock::{ExpectedVersion, When};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::countdown::Countdown;
use super::{LOOK_AGAIN, join};
use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::pipe::{Held, Orders, Report, report};
use crate::rng::Rng;
use crate::worker_spec::{Exits, Holds, WorkerSpec};

/// Maximum number of leases per request.
const LEASES: u64 = 4;
/// Maximum number of events drained under one lease.
const EVENTS: usize = 500;
/// An item that is unavailable for so much longer than any lease is stuck; the audit reports what
/// is left.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// The payload of a drain event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drained {
    /// Versions after this one,
    pub(crate) after: Mark,
    /// and up to this one,
    pub(crate) through: Mark,
    /// under the lease with this fence.
    pub(crate) fence: Fence,
}

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    holds: Holds,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let count = if holds == Holds::Alone { 1 } else { spec.load.callers };
    let countdown = Arc::new(Countdown::of(holds));
    let mut callers = JoinSet::new();
    let mut rng = Rng::seeded(spec.seed);
    for _ in 0..count {
        let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
        let (rng, countdown) = (Rng::seeded(rng.next()), countdown.clone());
        callers.spawn(Consumer { spec, caller, orders, rng, countdown }.drain_until_told());
    }
    join(callers).await
}

struct Consumer {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    rng: Rng,
    countdown: Arc<Countdown>,
}

impl Consumer {
    async fn drain_until_told(mut self) -> Result<(), Bug> {
        let mut signal = self.caller.store.signal(Topic::Queue(self.spec.space.queue()));
        let mut last_grant = Instant::now();
        loop {
            let finishing = self.orders.is_finishing();
            let request = self.request();
            let leased = self.caller.lease(&request).await?;
            if !leased.leases.is_empty() {
                last_grant = Instant::now();
                self.handle(&leased.leases).await?;
                continue;
            }
            if finishing && (leased.next_due.is_none() || last_grant.elapsed() > GIVE_UP_AFTER) {
                return Ok(());
            }
            // Nothing to do if it does not come.
            let _ = timeout(until_due(&leased), signal.wait()).await;
        }
    }

    fn request(&mut self) -> LeaseRequest {
        let worker = WorkerName::new(self.spec.name.as_str()).expect("workers have short names");
        let limit = 1 + usize::try_from(self.rng.below(LEASES)).expect("it is small");
        LeaseRequest::new(&self.spec.space.queue(), &worker, self.spec.load.lease, limit)
    }

    async fn handle(&mut self, leases: &[Lease]) -> Result<(), Bug> {
        if let Some(_over) = self.countdown.over_with(leases.len() as u64) {
            self.hold(leases).await;
        }
        for lease in leases {
            self.settle(lease).await?;
        }
        Ok(())
    }

    /// Waits while it holds its leases. Most are killed meanwhile.
    async fn hold(&self, leases: &[Lease]) {
        let tokens: Vec<LeaseToken> = leases.iter().map(Lease::token).collect();
        report(&Report::Holding(Held::Leases(tokens.clone())));
        self.orders.wait_to_go_on().await;
        tokens.into_iter().for_each(|token| self.caller.note(&Entry::Late(token)));
    }

    async fn settle(&mut self, lease: &Lease) -> Result<(), Bug> {
        if self.rng.one_in(4) && !self.caller.renew(&lease.token(), self.spec.load.lease).await? {
            // The lease is known to be lost. The commit is sent all the same: the fence has to
            // refuse it.
            self.caller.note(&Entry::Late(lease.token()));
        }
        let commit = match self.other_exit(lease) {
            Some(settlement) => Commit::new().settle(settlement),
            None => self.drained(lease).await?,
        };
        // The audit judges the answer.
        let _ = self.caller.commit(&commit.with_id(CommitId::fresh())).await?;
        Ok(())
    }

    /// Now and then, a settlement without any work.
    fn other_exit(&mut self, lease: &Lease) -> Option<Settlement> {
        let (token, soon) = (lease.token(), self.rng.millis(1, 40));
        match (self.spec.load.exits, self.rng.below(8)) {
            (Exits::All, 0) => Some(Settlement::release(token)),
            (Exits::All, 1) => Some(Settlement::retry(token, soon, "a random retry")),
            (Exits::All, 2) => Some(Settlement::defer(token, When::In(soon))),
            _ => None,
        }
    }

    /// Drains everything, recorded in the commit that settles the lease.
    async fn drained(&self, lease: &Lease) -> Result<Commit, Bug> {
        let space = &self.spec.space;
        let from = Version::FIRST.plus(lease.at.get());
        let query = StreamQuery::forward(&space.work_of(&lease.item)).from(from).limit(EVENTS);
        let page = self
            .caller
            .insist("read stream", || self.caller.store.read_stream(query.clone()))
            .await?;
        let Some(last) = page.events.last() else {
            return Ok(Commit::new().settle(lease.ack()));
        };
        let drained = Drained { after: lease.at, through: last.version.into(), fence: lease.fence };
        let event = NewEvent::of("drained", &drained).expect("three numbers are small");
        let commit = Commit::new()
            .append(&space.done_of(&lease.item), ExpectedVersion::Any, [event])
            .settle(Settlement::ack(lease.token(), drained.through));
        // The lease covers all events, and the page was too small.
        let rest = page.next.map(|_| Wake::at(lease.item.clone(), When::NOW));
        Ok(rest.into_iter().fold(commit, Commit::wake))
    }
}

/// Until something is due, but not so long that a lost signal matters.
fn until_due(leased: &Leased) -> Duration {
    leased.next_due.map_or(LOOK_AGAIN, |due| due.since(leased.at).min(LOOK_AGAIN))
}
