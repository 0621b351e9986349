//! The supervisor's fault injection: what scenarios can do to the workers, their network and their
//! server, and what they can wait for.
//!
//! It waits for a report, for a fact in the store, or for time to pass under load.

use std::time::{Duration, Instant};

use tidelock::store::{Fence, Item, ItemFilter, ItemQuery, LeaseToken, NamePattern};
use tidelock_test_postgres::{Proxy, Stop};
use tokio::runtime::Runtime;

use crate::caller::{Bug, Caller};
use crate::claim;
use crate::failure::Failure;
use crate::faults::{Fault, Faults};
use crate::finding::{Finding, Kind};
use crate::journal;
use crate::ledger::Journals;
use crate::pipe::{Held, Order};
use crate::plan::WorkerSlot;
use crate::rng::Rng;
use crate::target::Target;
use crate::workers::{PATIENCE, Workers};

/// How often the store is polled.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// After so many commits by all workers together, work has resumed.
const SOME_COMMITS: u64 = 20;
/// After so many commits an expired lease has long been taken over, if that is possible.
const MANY_COMMITS: u64 = 400;

pub(crate) struct Supervisor<'a> {
    pub(crate) target: &'a Target,
    pub(crate) runtime: &'a Runtime,
    pub(crate) workers: Workers<'a>,
    /// The supervisor's own connection to the store, without a proxy.
    pub(crate) caller: Caller,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) findings: Vec<Finding>,
}

impl Supervisor<'_> {
    pub(crate) fn start(&mut self, slot: WorkerSlot) -> Result<(), Failure> {
        let seed = self.rng.next();
        self.workers.start(slot, seed)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.workers.brief.load.lease
    }

    /// Lets the workers run for this long.
    pub(crate) fn work_for(&mut self, time: Duration) {
        self.workers.hear_until(Instant::now() + time, |_| false);
    }

    /// Checks that work resumes after a fault: a store that loses nothing but never answers again
    /// is useless.
    pub(crate) fn wait_for_progress(&mut self, after: Fault) {
        let enough = self.workers.counts().commits + SOME_COMMITS;
        if !self.workers.wait_until(|workers| workers.counts().commits >= enough) {
            let what =
                format!("not {SOME_COMMITS} commits within {PATIENCE:?} after this: {after}");
            self.findings.push(Finding::new(Kind::NoProgress, what));
        }
    }

    /// A random worker in this slot.
    pub(crate) fn any(&mut self, slot: &str) -> Option<String> {
        let mut names = self.workers.at_work(slot);
        let count = u64::try_from(names.len()).ok().filter(|count| *count > 0)?;
        Some(names.swap_remove(usize::try_from(self.rng.below(count)).ok()?))
    }

    /// Waits for a worker that reports that it holds something, confirmed by the store. An outdated
    /// report is released, and a newer one is awaited.
    pub(crate) fn wait_for_holder(&mut self) -> Result<Option<(String, Held)>, Bug> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end
            && self.workers.hear_until(end, |workers| workers.holder().is_some())
        {
            let Some((who, leases)) = self.workers.holder() else { break };
            if self.are_held(&leases)? {
                return Ok(Some((who, leases)));
            }
            self.release(&who);
        }
        Ok(None)
    }

    /// Stops a worker that holds leases until others have taken them over, kills another holder,
    /// and lets the workers run for a moment.
    pub(crate) fn injure_two_holders(&mut self) -> Result<(), Failure> {
        if let Some((who, leases)) = self.wait_for_holder()? {
            self.stop_until_taken_over(&who, &leases)?;
            self.release(&who);
        }
        if let Some((who, _)) = self.wait_for_holder()? {
            self.kill_and_replace(&who, Fault::KilledHolding)?;
        }
        let pause = self.rng.millis(10, 250);
        self.work_for(pause);
        Ok(())
    }

    /// Kills and replaces a random worker in this slot, if there is one, and waits for progress.
    pub(crate) fn kill_any(&mut self, slot: &str) -> Result<(), Failure> {
        let Some(worker) = self.any(slot) else { return Ok(()) };
        self.kill_and_replace(&worker, Fault::Killed)?;
        self.wait_for_progress(Fault::Killed);
        Ok(())
    }

    /// Kills a worker and starts a replacement.
    pub(crate) fn kill_and_replace(&mut self, who: &str, fault: Fault) -> Result<(), Failure> {
        let Some(process) = self.workers.get(who) else { return Ok(()) };
        let slot = process.slot;
        process.kill();
        self.faults.count(fault);
        self.workers.wait_until(|workers| workers.has_ended(who));
        self.start(slot)
    }

    /// Stops a worker while something else is done, and then continues it.
    pub(crate) fn stop_while<T>(
        &mut self,
        who: &str,
        fault: Fault,
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if let Some(process) = self.workers.get(who) {
            process.stop();
            self.faults.count(fault);
        }
        let done = act(self);
        if let Some(process) = self.workers.get(who) {
            process.go_on();
        }
        done
    }

    /// Tells a worker that holds leases to continue.
    pub(crate) fn release(&mut self, who: &str) {
        if let Some(process) = self.workers.get(who) {
            process.holding = None;
            process.tell(Order::GoOn);
        }
    }

    /// Whether the store says that all of this is held, and has not expired.
    fn are_held(&self, held: &Held) -> Result<bool, Bug> {
        let now = self.runtime.block_on(self.caller.now())?;
        let leases = match held {
            Held::Leases(leases) => leases,
            Held::Lock { lock, fence } => {
                let holder = claim::holder(&self.caller, &self.workers.brief.space, *lock);
                let holder = self.runtime.block_on(holder)?.filter(|holder| holder.fence == *fence);
                return Ok(holder.and_then(|holder| holder.until).is_some_and(|until| until > now));
            }
        };
        let lasts = |item: &Item| item.holder.as_ref().is_some_and(|holder| holder.deadline > now);
        self.all(leases, |item, lease| item.is_held_under(lease.fence) && lasts(item))
    }

    /// Waits until each of these items was leased to another worker.
    pub(crate) fn wait_for_takeover(&mut self, held: &Held) -> Result<(), Bug> {
        let end = Instant::now() + PATIENCE;
        if !self.are_taken_over_before(held, |_| Instant::now() > end)? {
            let what = format!("no worker took over {held:?} within {PATIENCE:?}");
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
            if is_so(&self.workers) {
                return Ok(false);
            }
            self.work_for(LOOK_AGAIN);
        }
        Ok(true)
    }

    /// Whether each of these was granted to another worker since.
    fn are_taken_over(&self, held: &Held) -> Result<bool, Bug> {
        let is_later = |fence: Option<Fence>, than: Fence| fence.is_some_and(|fence| fence > than);
        match held {
            Held::Leases(leases) => {
                self.all(leases, |item, lease| is_later(item.fence, lease.fence))
            }
            Held::Lock { lock, fence } => {
                let guarded = claim::guarded(&self.caller, &self.workers.brief.space, *lock);
                Ok(is_later(self.runtime.block_on(guarded)?.map(|bump| bump.fence), *fence))
            }
        }
    }

    /// Stops a worker until others have all of its leases, or until it proves to block them.
    pub(crate) fn stop_until_taken_over(&mut self, who: &str, held: &Held) -> Result<(), Bug> {
        let Some(process) = self.workers.get(who) else { return Ok(()) };
        process.stop();
        let is_in_the_way = self.is_in_the_way();
        let taken_over = self.are_taken_over_before(held, is_in_the_way);
        if let Some(process) = self.workers.get(who) {
            process.go_on();
        }
        self.faults.count(if taken_over? { Fault::StoppedHolding } else { Fault::Stopped });
        Ok(())
    }

    /// Whether a worker that is stopped now blocks its own leases, because it was in the middle of
    /// a transaction. On a file no other process commits then; on a server others do, and have had
    /// every chance after so many commits. A slow machine takes longer for them.
    fn is_in_the_way(&self) -> impl FnMut(&Workers<'_>) -> bool + use<> {
        let (standstill, begun) = (self.lease() * 6, self.workers.counts().commits);
        let (mut commits, mut since) = (begun, Instant::now());
        move |workers| {
            let now = workers.counts().commits;
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

    /// Disturbs the network for a while under load, and heals it.
    pub(crate) fn injure_network(&mut self, fault: Fault, injure: fn(&Proxy), time: Duration) {
        self.proxy.iter().for_each(injure);
        self.faults.count(fault);
        self.work_for(time);
        self.heal();
    }

    /// Cuts a connection between a request with these bytes and its reply, and waits until a worker
    /// notices.
    pub(crate) fn cut_after_request(&mut self, pattern: &[u8]) {
        let doubts = self.workers.counts().doubts;
        self.proxy.iter().for_each(|proxy| proxy.cut_after_request(pattern));
        if self.workers.wait_until(|workers| workers.counts().doubts > doubts) {
            self.faults.count(Fault::CutAfterRequest);
        }
        self.heal();
    }

    /// Ends all network faults.
    pub(crate) fn heal(&self) {
        self.proxy.iter().for_each(Proxy::heal);
    }

    /// Reads the journals of these workers.
    pub(crate) fn read_journals(&self, names: &[String]) -> Result<Journals, Failure> {
        let folder = &self.workers.brief.folder;
        let read = |name: &String| {
            journal::read(&folder.join(name)).map(|entries| (name.clone(), entries))
        };
        Ok(names.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Tells the workers in these slots to finish, and waits for them.
    pub(crate) fn finish(&mut self, slots: &[&str]) {
        if !self.workers.finish(slots) {
            let what = format!("{} did not finish within {PATIENCE:?}", slots.join(" and "));
            self.findings.push(Finding::new(Kind::WorkerFailed, what));
        }
    }
}
