//! What scenarios can do to the workers, their network and their server, and what they can wait
//! for.
//!
//! Waiting is waiting for a report, for a fact in the store, or for time to pass under load.

use std::time::{Duration, Instant};

use tidelock::{Fence, Item, ItemFilter, ItemQuery, LeaseToken, NamePattern};
use tidelock_test_postgres::{Proxy, Stop};
use tokio::runtime::Runtime;

use crate::caller::{Bug, Caller};
use crate::cast::Seat;
use crate::claim;
use crate::crew::{PATIENCE, Workers};
use crate::dice::Rng;
use crate::failure::Failure;
use crate::faults::{Fault, Faults};
use crate::finding::{Finding, Kind};
use crate::journal;
use crate::ledger::Journals;
use crate::pipe::{Held, Order};
use crate::target::Target;

/// How often a fact in the store is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// So many commits by all workers together, and they are at work again.
const SOME_COMMITS: u64 = 20;
/// So many, and a lease that ran out has long been somebody else's, if anybody could have it.
const MANY_COMMITS: u64 = 400;

pub(crate) struct Stage<'a> {
    pub(crate) target: &'a Target,
    pub(crate) runtime: &'a Runtime,
    pub(crate) crew: Workers<'a>,
    /// The supervisor's own way to the store, with nothing in between.
    pub(crate) caller: Caller,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) dice: Rng,
    pub(crate) faults: Faults,
    pub(crate) findings: Vec<Finding>,
}

impl Stage<'_> {
    pub(crate) fn start(&mut self, seat: Seat) -> Result<(), Failure> {
        let seed = self.dice.next();
        self.crew.start(seat, seed)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.crew.brief.load.lease
    }

    /// Lets everybody work for this long.
    pub(crate) fn work_for(&mut self, time: Duration) {
        self.crew.hear_until(Instant::now() + time, |_| false);
    }

    /// Sees that work goes on after an injury: a store that loses nothing but never answers again
    /// is of no use.
    pub(crate) fn wait_for_progress(&mut self, after: Fault) {
        let enough = self.crew.did().commits + SOME_COMMITS;
        if !self.crew.wait_until(|crew| crew.did().commits >= enough) {
            let what =
                format!("not {SOME_COMMITS} commits within {PATIENCE:?} after this: {after}");
            self.findings.push(Finding::new(Kind::NoProgress, what));
        }
    }

    /// A worker in this seat, chosen by the dice.
    pub(crate) fn any(&mut self, seat: &str) -> Option<String> {
        let mut names = self.crew.at_work(seat);
        let count = u64::try_from(names.len()).ok().filter(|count| *count > 0)?;
        Some(names.swap_remove(usize::try_from(self.dice.below(count)).ok()?))
    }

    /// Waits for a worker that says that it holds something, and of which the store says so too.
    /// One that said so a while ago, when something else was done, may hold none any more: it goes
    /// on, and a fresher one is waited for.
    pub(crate) fn wait_for_holder(&mut self) -> Result<Option<(String, Held)>, Bug> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.crew.hear_until(end, |crew| crew.holder().is_some()) {
            let Some((who, leases)) = self.crew.holder() else { break };
            if self.are_held(&leases)? {
                return Ok(Some((who, leases)));
            }
            self.release(&who);
        }
        Ok(None)
    }

    /// Stops a worker that holds leases until others have taken them over, kills another that holds
    /// some, and lets everybody work for a moment.
    pub(crate) fn injure_two_holders(&mut self) -> Result<(), Failure> {
        if let Some((who, leases)) = self.wait_for_holder()? {
            self.stop_until_taken_over(&who, &leases)?;
            self.release(&who);
        }
        if let Some((who, _)) = self.wait_for_holder()? {
            self.kill_and_replace(&who, Fault::KilledHolding)?;
        }
        let pause = self.dice.millis(10, 250);
        self.work_for(pause);
        Ok(())
    }

    /// Kills a worker and puts another in its place.
    pub(crate) fn kill_and_replace(&mut self, who: &str, fault: Fault) -> Result<(), Failure> {
        let Some(process) = self.crew.get(who) else { return Ok(()) };
        let seat = process.seat;
        process.kill();
        self.faults.count(fault);
        self.crew.wait_until(|crew| crew.has_ended(who));
        self.start(seat)
    }

    /// Stops a worker while something else is done, and then lets it go on.
    pub(crate) fn stop_while<T>(
        &mut self,
        who: &str,
        fault: Fault,
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if let Some(process) = self.crew.get(who) {
            process.stop();
            self.faults.count(fault);
        }
        let done = act(self);
        if let Some(process) = self.crew.get(who) {
            process.go_on();
        }
        done
    }

    /// Tells a worker that holds leases to go on.
    pub(crate) fn release(&mut self, who: &str) {
        if let Some(process) = self.crew.get(who) {
            process.holding = None;
            process.tell(Order::GoOn);
        }
    }

    /// Whether the store says that all of this is held, and has not run out.
    fn are_held(&self, held: &Held) -> Result<bool, Bug> {
        let now = self.runtime.block_on(self.caller.now())?;
        let leases = match held {
            Held::Leases(leases) => leases,
            Held::Lock { lock, fence } => {
                let holder = claim::holder(&self.caller, &self.crew.brief.space, *lock);
                let holder = self.runtime.block_on(holder)?.filter(|holder| holder.fence == *fence);
                return Ok(holder.and_then(|holder| holder.until).is_some_and(|until| until > now));
            }
        };
        let lasts = |item: &Item| item.holder.as_ref().is_some_and(|holder| holder.deadline > now);
        self.all(leases, |item, lease| item.is_held_under(lease.fence) && lasts(item))
    }

    /// Waits until each of these items was leased to somebody else.
    pub(crate) fn wait_for_takeover(&mut self, held: &Held) -> Result<(), Bug> {
        let end = Instant::now() + PATIENCE;
        if !self.are_taken_over_before(held, |_| Instant::now() > end)? {
            let what = format!("nobody took over {held:?} within {PATIENCE:?}");
            self.findings.push(Finding::new(Kind::StuckLease, what));
        }
        Ok(())
    }

    fn are_taken_over_before(
        &mut self,
        held: &Held,
        mut is_so: impl FnMut(&Workers<'_>) -> bool,
    ) -> Result<bool, Bug> {
        while !self.are_taken_over(held)? {
            if is_so(&self.crew) {
                return Ok(false);
            }
            self.work_for(LOOK_AGAIN);
        }
        Ok(true)
    }

    /// Whether each of these was granted to another since.
    fn are_taken_over(&self, held: &Held) -> Result<bool, Bug> {
        let is_later = |fence: Option<Fence>, than: Fence| fence.is_some_and(|fence| fence > than);
        match held {
            Held::Leases(leases) => {
                self.all(leases, |item, lease| is_later(item.fence, lease.fence))
            }
            Held::Lock { lock, fence } => {
                let guarded = claim::guarded(&self.caller, &self.crew.brief.space, *lock);
                Ok(is_later(self.runtime.block_on(guarded)?.map(|bump| bump.fence), *fence))
            }
        }
    }

    /// Stops a worker until others have all of its leases, or until it shows that they cannot have
    /// them.
    pub(crate) fn stop_until_taken_over(&mut self, who: &str, held: &Held) -> Result<(), Bug> {
        let Some(process) = self.crew.get(who) else { return Ok(()) };
        process.stop();
        let is_in_the_way = self.is_in_the_way();
        let taken_over = self.are_taken_over_before(held, is_in_the_way);
        if let Some(process) = self.crew.get(who) {
            process.go_on();
        }
        self.faults.count(if taken_over? { Fault::StoppedHolding } else { Fault::Stopped });
        Ok(())
    }

    /// Whether one that is stopped from now on keeps others from its leases, because it was in the
    /// middle of a transaction besides. Of a file nobody else commits then; on a server others do,
    /// and have had every chance after so many commits. A slow machine takes its time for them.
    fn is_in_the_way(&self) -> impl FnMut(&Workers<'_>) -> bool + use<> {
        let (standstill, begun) = (self.lease() * 6, self.crew.did().commits);
        let (mut commits, mut since) = (begun, Instant::now());
        move |crew| {
            let now = crew.did().commits;
            if now > commits {
                (commits, since) = (now, Instant::now());
            }
            commits - begun > MANY_COMMITS || since.elapsed() > standstill
        }
    }

    fn all(
        &self,
        leases: &[LeaseToken],
        is_so: impl Fn(&Item, &LeaseToken) -> bool,
    ) -> Result<bool, Bug> {
        for lease in leases {
            let filter = ItemFilter::queue(lease.item.queue.as_str());
            let query = ItemQuery::new(filter.key(NamePattern::is(lease.item.key.as_str())));
            let read = self.caller.insist("items", || self.caller.store.items(query.clone()));
            if !self.runtime.block_on(read)?.items.iter().all(|item| is_so(item, lease)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stops the server as if it had crashed, and starts it again.
    pub(crate) fn restart_server(&mut self) -> Result<(), Failure> {
        let Some(server) = self.target.server() else { return Ok(()) };
        server.restart(Stop::Immediate)?;
        self.faults.count(Fault::ServerRestarted);
        Ok(())
    }

    /// Injures the network for as long as everybody works on, and heals it.
    pub(crate) fn injure_network(&mut self, fault: Fault, injure: fn(&Proxy), time: Duration) {
        self.proxy.iter().for_each(injure);
        self.faults.count(fault);
        self.work_for(time);
        self.heal();
    }

    /// Cuts a connection between a request with these bytes and its reply, and waits for somebody
    /// to notice.
    pub(crate) fn cut_after_request(&mut self, pattern: &[u8]) {
        let doubts = self.crew.did().doubts;
        self.proxy.iter().for_each(|proxy| proxy.cut_after_request(pattern));
        if self.crew.wait_until(|crew| crew.did().doubts > doubts) {
            self.faults.count(Fault::CutAfterRequest);
        }
        self.heal();
    }

    /// Ends whatever was done to the network.
    pub(crate) fn heal(&self) {
        self.proxy.iter().for_each(Proxy::heal);
    }

    /// What these workers wrote down.
    pub(crate) fn read_journals(&self, names: &[String]) -> Result<Journals, Failure> {
        let folder = &self.crew.brief.folder;
        let read = |name: &String| {
            journal::read(&folder.join(name)).map(|entries| (name.clone(), entries))
        };
        Ok(names.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Tells the workers in these seats to finish, and waits for them.
    pub(crate) fn finish(&mut self, seats: &[&str]) {
        if !self.crew.finish(seats) {
            let what = format!("{} did not finish within {PATIENCE:?}", seats.join(" and "));
            self.findings.push(Finding::new(Kind::WorkerFailed, what));
        }
    }
}
