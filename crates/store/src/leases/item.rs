//! The state machine of a work item, as pure functions of the item and the time.
//!
//! Stores that load the row use these functions; stores that work in SQL are compared with them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ItemRef, Lease, LeaseToken, Settle, SettleKind, Settlement, Wake};
use crate::clock::Timestamp;
use crate::error::{Result, StoreError};
use crate::limits;
use crate::names::{LaneName, WorkerName};
use crate::numbers::{Fence, Mark, Priority};

/// The holder of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// The worker that leased it.
    pub worker: WorkerName,
    /// When the lease was granted.
    pub since: Timestamp,
    /// When the lease ends.
    pub deadline: Timestamp,
}

/// The state of a work item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its queue and key.
    #[serde(flatten)]
    pub item: ItemRef,
    /// Its lane: a part of the queue.
    pub lane: LaneName,
    /// Its priority.
    pub priority: Priority,
    /// Done up to here.
    pub at: Mark,
    /// Work up to here.
    pub mark: Mark,
    /// When it has work; none if it has no work. While the item is leased, this holds only a timer
    /// in the future.
    pub due: Option<Timestamp>,
    /// The item is not leased before this moment, even if due: a retry's backoff, or a deferral.
    pub hold: Option<Timestamp>,
    /// Leases since the last progress.
    pub attempts: u32,
    /// Retries since the last progress.
    pub failures: u32,
    /// Leases that expired since the last progress.
    pub expiries: u32,
    /// Excluded from leasing until it is unblocked.
    pub blocked: bool,
    /// The error of the last retry or block.
    pub error: Option<String>,
    /// The fence of the newest lease, or the next one if that lease was revoked; none if it was
    /// never leased.
    pub fence: Option<Fence>,
    /// The holder. Still set after the deadline, until another worker leases the item.
    pub holder: Option<LeaseHolder>,
    /// How the newest lease was settled, if it was.
    pub settled: Option<SettleKind>,
    /// When the store forgets the item if it is still idle then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget_at: Option<Timestamp>,
}

impl Item {
    /// Creates an item without work, with the lane and priority of this wake.
    pub(crate) fn made_by(wake: &Wake) -> Self {
        Self {
            item: wake.item.clone(),
            lane: wake.lane.clone().unwrap_or_default(),
            priority: wake.priority.unwrap_or_default(),
            at: Mark::ZERO,
            mark: Mark::ZERO,
            due: None,
            hold: None,
            attempts: 0,
            failures: 0,
            expiries: 0,
            blocked: false,
            error: None,
            fence: None,
            holder: None,
            settled: None,
            forget_at: None,
        }
    }

    /// Validates an item to restore: it must not be leased, and its state must be possible.
    pub(crate) fn check_restored(&self) -> Result<()> {
        let refuse =
            |what: &str| Err(StoreError::invalid(format!("restore of {}: {what}", self.item)));
        let counts = [self.attempts, self.failures, self.expiries];
        let error = self.error.as_deref().unwrap_or_default();
        if self.fence.is_some() || self.holder.is_some() || self.settled.is_some() {
            return refuse("a lease is never restored, nor is its fence");
        }
        if self.at > self.mark {
            return refuse("more is done than there was to do");
        }
        if self.forget_at.is_some() && !self.is_idle() {
            return refuse("what has something to do is not forgotten");
        }
        if counts.iter().any(|count| *count > limits::RESTORED_COUNT) {
            return refuse("a count is larger than any that a store keeps");
        }
        if error.contains('\0') || error.chars().nth(limits::ERROR_CHARS + 1).is_some() {
            return refuse("its error is longer than any that a store keeps, or has a NUL in it");
        }
        Ok(())
    }

    /// When this item can be leased; none while it is blocked or has no work.
    ///
    /// A leased item can be leased again once its deadline has passed. So one index over this value
    /// finds everything that is due and never reads what is idle.
    pub fn ready_at(&self) -> Option<Timestamp> {
        if self.blocked {
            return None;
        }
        let due = self.holder.as_ref().map(|h| h.deadline).or(self.due)?;
        Some(self.hold.map_or(due, |hold| hold.max(due)))
    }

    /// Whether it has no work, now or later, and is not leased.
    pub fn is_idle(&self) -> bool {
        self.due.is_none() && self.holder.is_none() && !self.blocked
    }

    /// Whether the current lease has this fence.
    pub fn is_held_under(&self, fence: Fence) -> bool {
        self.holder.is_some() && self.fence == Some(fence)
    }

    /// Whether the same settlement was made before, under the same lease, with no change since.
    pub fn was_settled_so(&self, settlement: &Settlement) -> bool {
        self.holder.is_none()
            && self.fence == Some(settlement.lease.fence)
            && self.settled == Some(settlement.exit.kind())
            && settlement.done.is_none_or(|done| done <= self.at)
    }

    /// Records new work.
    pub(crate) fn wake(&mut self, wake: &Wake, now: Timestamp) {
        if let Some(mark) = wake.mark.filter(|mark| *mark > self.at) {
            self.mark = self.mark.max(mark);
            // While the item is leased, the settlement will see how far the mark has moved.
            if self.holder.is_none() {
                self.is_due_from(now);
            }
        }
        if let Some(due) = wake.due {
            self.is_due_from(due.resolve(now).max(now));
        }
    }

    /// Grants a lease. The caller has checked that the item is ready. The fence is above the
    /// store's floor, which is at or above the fences of all items that were forgotten or lost.
    pub fn grant(
        &mut self,
        worker: &WorkerName,
        duration: Duration,
        now: Timestamp,
        floor: u64,
    ) -> Lease {
        if self.holder.is_some() {
            self.expiries += 1;
        }
        let fence = Fence::above(self.fence.map_or(0, Fence::get).max(floor));
        let deadline = now.plus(duration);
        self.attempts += 1;
        self.fence = Some(fence);
        self.holder = Some(LeaseHolder { worker: worker.clone(), since: now, deadline });
        self.settled = None;
        // What was due is covered by this lease; a timer set during an earlier lease is kept if it
        // is in the future.
        self.due = self.due.filter(|due| *due > now);
        self.hold = None;
        Lease {
            item: self.item.clone(),
            fence,
            at: self.at,
            mark: self.mark,
            deadline,
            attempts: self.attempts,
            failures: self.failures,
            expiries: self.expiries,
            lane: self.lane.clone(),
            priority: self.priority,
        }
    }

    /// Extends the lease. Returns the new deadline, or none if this fence no longer holds the item.
    pub fn renew(
        &mut self,
        token: &LeaseToken,
        duration: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let holder = self.holder.as_mut().filter(|_| self.fence == Some(token.fence))?;
        holder.deadline = holder.deadline.max(now.plus(duration));
        Some(holder.deadline)
    }

    /// Ends the lease. The caller has checked that it is current.
    pub(crate) fn settle(&mut self, settlement: &Settlement, now: Timestamp) {
        self.holder = None;
        self.settled = Some(settlement.exit.kind());
        if let Some(done) = settlement.done {
            self.progress(done);
        }
        match &settlement.exit {
            Settle::Ack { defer, forget } => {
                self.reset_counts();
                self.error = None;
                if let Some(until) = defer {
                    self.hold_until(until.resolve(now));
                }
                if self.at < self.mark {
                    self.is_due_from(now);
                }
                self.forget_at =
                    forget.filter(|_| self.due.is_none()).map(|when| when.resolve(now));
            }
            Settle::Retry { after, error } => {
                self.failures += 1;
                self.error = Some(cut(error));
                self.hold_until(now.plus(*after));
                self.is_due_from(now);
            }
            Settle::Defer { until } => {
                self.hold_until(until.resolve(now));
                self.is_due_from(now);
            }
            Settle::Block { error } => {
                self.blocked = true;
                self.error = Some(cut(error));
                self.is_due_from(now);
            }
            Settle::Release => self.is_due_from(now),
        }
    }

    pub(super) fn is_due_from(&mut self, moment: Timestamp) {
        self.due = Some(self.due.map_or(moment, |due| due.min(moment)));
        self.forget_at = None;
    }

    /// Sets a hold; never shorter than one that was set while the item was leased.
    fn hold_until(&mut self, moment: Timestamp) {
        self.hold = Some(self.hold.map_or(moment, |hold| hold.max(moment)));
    }

    pub(super) fn reset_counts(&mut self) {
        self.attempts = 0;
        self.failures = 0;
        self.expiries = 0;
    }

    /// Advances the cursor, never back, and resets the counts of failures.
    fn progress(&mut self, done: Mark) {
        if done > self.at {
            self.at = done;
            self.mark = self.mark.max(done);
            self.reset_counts();
        }
    }
}

/// Truncates an error to what is kept. A long message must not fail a settlement, nor one with a
/// NUL, which not every database can store.
fn cut(error: &str) -> String {
    let kept = match error.char_indices().nth(limits::ERROR_CHARS) {
        Some((at, _)) => format!("{}…", &error[..at]),
        None => error.to_owned(),
    };
    kept.replace('\0', "\u{fffd}")
}
