//! The reference model: the contract in its simplest form.
//!
//! Written from docs/guarantees.md and the documentation of the contract, with lists that are
//! searched from end to end. It shares the contract's data types and none of its decisions: where
//! it and a store disagree, one of them, or the documentation, is wrong. It numbers positions from
//! 1 without gaps, which the contract allows.

mod leases;
mod log;
mod records;

use std::collections::BTreeSet;
use std::time::Duration;

use tidelock_store::{
    AfterAppend, Append, Commit, CommitOutcome, Committed, Conflict, Guard, HeadQuery, Part,
    StoreErrorKind, Timestamp, Violation, ViolationReason, When,
};

use super::call::{Answer, Call, Tick};
use leases::Leases;
use log::Log;
use records::Records;

pub(super) struct Reference {
    now: Timestamp,
    /// How far the calendar is behind the store's clock, after it was set back.
    behind: Duration,
    log: Log,
    records: Records,
    leases: Leases,
    /// Accepted commits with an id. Histories never ask for one that is old enough to be forgotten.
    remembered: Vec<(Commit, Committed)>,
}

impl Reference {
    /// An empty store at this moment.
    pub(super) fn at(now: Timestamp) -> Self {
        Self {
            now,
            behind: Duration::ZERO,
            log: Log::default(),
            records: Records::default(),
            leases: Leases::default(),
            remembered: Vec::new(),
        }
    }

    /// The answer that a store must give.
    pub(super) fn answer(&mut self, call: &Call) -> Answer {
        if makes_no_sense(call) {
            return Answer::Failed(StoreErrorKind::Invalid);
        }
        let now = self.now;
        match call {
            Call::Commit(commit) => match self.commit(commit) {
                Ok(outcome) => Answer::Commit(outcome),
                Err(kind) => Answer::Failed(kind),
            },
            Call::ReadStream(query) => Answer::Stream(self.log.read_stream(query)),
            Call::ReadFeed(query) => Answer::Feed(self.log.read_feed(query)),
            Call::Heads(query) => Answer::Heads(self.log.heads(query)),
            Call::Get(keys) => {
                Answer::Slots(keys.iter().map(|key| self.records.slot(key, now)).collect())
            }
            Call::Scan(prefix, _) => Answer::Records(self.records.live(prefix, now)),
            Call::Lease(request) => Answer::Leased(self.leases.lease(request, now)),
            Call::Renew(tokens, duration) => Answer::Renewed(
                tokens.iter().map(|t| self.leases.renew(t, now.plus(*duration))).collect(),
            ),
            Call::Items(filter, _) => Answer::Items(self.leases.list(filter)),
            Call::Adjust(filter, adjustment) => {
                Answer::Adjusted(self.leases.adjust(filter, adjustment, now))
            }
            Call::Clock(tick) => Answer::Now(self.tick(*tick)),
        }
    }

    /// The clock follows the calendar forward, and continues at its own pace when the calendar was
    /// set back. Then everything past its retention is removed.
    fn tick(&mut self, tick: Tick) -> Timestamp {
        match tick {
            Tick::Advance(duration) => self.now = self.now.plus(duration),
            Tick::SetBack(duration) => self.behind += duration,
            Tick::SetForward(duration) => {
                self.now = self.now.plus(duration.saturating_sub(self.behind));
                self.behind = self.behind.saturating_sub(duration);
            }
        }
        self.records.sweep(self.now);
        self.leases.sweep(self.now);
        self.log.sweep(self.now);
        self.now
    }

    fn commit(&mut self, commit: &Commit) -> Result<CommitOutcome, StoreErrorKind> {
        let earlier = self
            .remembered
            .iter()
            .find(|(earlier, _)| commit.id.is_some() && earlier.id == commit.id);
        match earlier {
            Some((earlier, committed)) if earlier == commit => {
                return Ok(CommitOutcome::Committed(committed.clone()));
            }
            Some(_) => return Err(StoreErrorKind::IdempotencyMismatch),
            None => {}
        }
        if commit.appends.iter().any(|append| self.log.misuses_an_id(append)) {
            return Err(StoreErrorKind::IdempotencyMismatch);
        }
        let violations = self.judge(commit);
        if !violations.is_empty() {
            return Ok(CommitOutcome::Conflict(Conflict { violations }));
        }
        let committed = self.write(commit);
        if commit.id.is_some() {
            self.remembered.push((commit.clone(), committed.clone()));
        }
        Ok(CommitOutcome::Committed(committed))
    }

    /// Every violation, in the order of the commit's fields.
    fn judge(&self, commit: &Commit) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut note = |part: Part, reason: Option<ViolationReason>| {
            violations.extend(reason.map(|reason| Violation { part, reason }));
        };
        for (at, append) in commit.appends.iter().enumerate() {
            note(Part::Append(at), self.log.judge_append(append, commit));
        }
        for (at, write) in commit.writes.iter().enumerate() {
            note(Part::Write(at), self.records.judge(write, self.now));
        }
        for (at, settlement) in commit.settlements.iter().enumerate() {
            note(Part::Settlement(at), self.leases.judge_settlement(settlement));
        }
        for (at, lease) in commit.fences.iter().enumerate() {
            note(Part::Fence(at), self.leases.judge_fence(lease));
        }
        for (at, guard) in commit.guards.iter().enumerate() {
            let reason = match guard {
                Guard::Stream { stream, expected } => self.log.judge(stream, *expected),
                Guard::Record { key, expected } => {
                    self.records.judge_slot(key, *expected, self.now)
                }
            };
            note(Part::Guard(at), reason);
        }
        for (at, trim) in commit.trims.iter().enumerate() {
            note(Part::Trim(at), self.log.judge_trim(trim, commit));
        }
        for (at, restored) in commit.restores.iter().enumerate() {
            note(Part::Restore(at), self.leases.judge_restore(restored));
        }
        violations
    }

    fn write(&mut self, commit: &Commit) -> Committed {
        let now = self.now;
        let appends = self.log.write(commit, now);
        let writes = commit.writes.iter().map(|write| self.records.write(write, now)).collect();
        for settlement in &commit.settlements {
            self.leases.settle(settlement, now);
        }
        for restored in &commit.restores {
            self.leases.restore(restored);
        }
        for wake in &commit.wakes {
            self.leases.wake(wake, now);
        }
        Committed { at: now, appends, writes }
    }
}

/// The moment that is meant.
fn moment(when: When, now: Timestamp) -> Timestamp {
    match when {
        When::At(moment) => moment,
        When::In(duration) => now.plus(duration),
    }
}

/// Input that no store should accept.
fn makes_no_sense(call: &Call) -> bool {
    match call {
        Call::Commit(commit) => commit_makes_no_sense(commit),
        Call::ReadStream(query) => query.limit == 0,
        Call::ReadFeed(query) => query.limit == 0,
        Call::Heads(HeadQuery::Prefix { limit, .. }) => *limit == 0,
        Call::Scan(_, limit) | Call::Items(_, limit) => *limit == 0,
        Call::Lease(request) => request.limit == 0 || request.duration.is_zero(),
        Call::Renew(_, duration) => duration.is_zero(),
        Call::Heads(_) | Call::Get(_) | Call::Adjust(..) | Call::Clock(_) => false,
    }
}

fn commit_makes_no_sense(commit: &Commit) -> bool {
    let empty = |append: &Append| append.events.is_empty() && append.then == AfterAppend::StayOpen;
    commit.parts() == 0
        || commit.appends.iter().any(empty)
        || commit.writes.iter().any(records::makes_no_sense)
        || commit.wakes.iter().any(|wake| wake.mark.is_none() && wake.due.is_none())
        || twice(commit.appends.iter().map(|append| &append.stream))
        || twice(commit.appends.iter().flat_map(|append| &append.events).map(|event| event.id))
        || twice(commit.writes.iter().map(|write| &write.key))
        || twice(commit.settlements.iter().map(|settlement| &settlement.lease.item))
        || twice(commit.trims.iter().map(|trim| &trim.stream))
        || twice(commit.restores.iter().map(|restored| &restored.item))
}

/// Whether something occurs twice.
fn twice<T: Ord>(mut names: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    !names.all(|name| seen.insert(name))
}
