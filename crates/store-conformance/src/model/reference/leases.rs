//! Reference model of work items: a list that is searched for every lease.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidelock_store::{
    Adjusted, Adjustment, Fence, Item, ItemFilter, ItemRef, LaneName, Lease, LeaseHolder,
    LeaseRequest, LeaseToken, Leased, Mark, NamePattern, QueueName, Renewal, Settle, SettleKind,
    Settlement, Timestamp, ViolationReason, Wake, limits,
};

use super::moment;

#[derive(Default)]
pub(super) struct Leases {
    items: BTreeMap<ItemRef, Item>,
    /// The highest forgotten fence.
    floor: u64,
    /// How many slots were given out, by requested queue and lane.
    given: BTreeMap<(QueueName, Option<LaneName>), u64>,
}

impl Leases {
    pub(super) fn judge_fence(&self, lease: &LeaseToken) -> Option<ViolationReason> {
        let found = self.items.get(&lease.item);
        let stands =
            found.is_some_and(|item| item.holder.is_some() && item.fence == Some(lease.fence));
        let found = || found.cloned().map(Box::new);
        (!stands).then(|| ViolationReason::LeaseLost { lease: lease.clone(), found: found() })
    }

    pub(super) fn judge_settlement(&self, settlement: &Settlement) -> Option<ViolationReason> {
        if self.was_made(settlement) { None } else { self.judge_fence(&settlement.lease) }
    }

    /// Whether the lease was settled in this way already, and the item was not leased since.
    fn was_made(&self, settlement: &Settlement) -> bool {
        self.items.get(&settlement.lease.item).is_some_and(|item| {
            item.fence == Some(settlement.lease.fence)
                && item.settled == Some(kind(&settlement.exit))
                && settlement.done.is_none_or(|done| done <= item.at)
        })
    }

    pub(super) fn settle(&mut self, settlement: &Settlement, now: Timestamp) {
        if self.was_made(settlement) {
            return;
        }
        let item =
            self.items.get_mut(&settlement.lease.item).expect("a lease that stands has an item");
        item.holder = None;
        item.settled = Some(kind(&settlement.exit));
        if let Some(done) = settlement.done.filter(|done| *done > item.at) {
            item.at = done;
            item.mark = item.mark.max(done);
            reset_counts(item);
        }
        let mut due = Some(now);
        match &settlement.exit {
            Settle::Ack { defer, forget } => {
                reset_counts(item);
                item.error = None;
                item.hold = later(item.hold, defer.map(|when| moment(when, now)));
                due = due.filter(|_| item.at < item.mark);
                let idle = item.due.is_none() && due.is_none();
                item.forget_at = forget.filter(|_| idle).map(|when| moment(when, now));
            }
            Settle::Retry { after, error } => {
                item.failures += 1;
                item.error = Some(cut(error));
                item.hold = later(item.hold, Some(now.plus(*after)));
            }
            Settle::Defer { until } => item.hold = later(item.hold, Some(moment(*until, now))),
            Settle::Block { error } => {
                item.blocked = true;
                item.error = Some(cut(error));
            }
            Settle::Release => {}
        }
        item.due = earlier(item.due, due);
    }

    pub(super) fn judge_restore(&self, restored: &Item) -> Option<ViolationReason> {
        self.items
            .get(&restored.item)
            .map(|found| ViolationReason::Item { found: Box::new(found.clone()) })
    }

    pub(super) fn restore(&mut self, restored: &Item) {
        self.items.insert(restored.item.clone(), restored.clone());
    }

    pub(super) fn wake(&mut self, wake: &Wake, now: Timestamp) {
        let item = self.items.entry(wake.item.clone()).or_insert_with(|| new_item(wake));
        if let Some(mark) = wake.mark.filter(|mark| *mark > item.at) {
            item.mark = item.mark.max(mark);
            // Its holder's settlement will show whether anything is left.
            item.due = earlier(item.due, Some(now).filter(|_| item.holder.is_none()));
        }
        item.due = earlier(item.due, wake.due.map(|when| moment(when, now).max(now)));
        keep_if_due(item);
    }

    /// Forgets the items whose time has passed.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let gone = |item: &Item| item.forget_at.is_some_and(|moment| moment <= now);
        let forgotten = self.items.values().filter(|item| gone(item)).filter_map(|item| item.fence);
        self.floor = forgotten.map(Fence::get).fold(self.floor, u64::max);
        self.items.retain(|_, item| !gone(item));
    }

    pub(super) fn lease(&mut self, request: &LeaseRequest, now: Timestamp) -> Leased {
        let mut leases = Vec::new();
        while leases.len() < request.limit {
            let slot = self.given.entry((request.queue.clone(), request.lane.clone())).or_default();
            let by_age = *slot % limits::AGE_RESERVE == limits::AGE_RESERVE - 1;
            let due = self.items.values().filter(|item| is_asked_for(item, request));
            let due = due
                .filter_map(|item| Some((ready_at(item)?, item)))
                .filter(|(ready, _)| *ready <= now);
            // By priority unless by age; then what has been due longest; then by name.
            let first = due.min_by_key(|(ready, item)| {
                let urgency = if by_age { None } else { Some(Reverse(item.priority)) };
                (urgency, *ready, item.item.clone())
            });
            let Some(chosen) = first.map(|(_, item)| item.item.clone()) else { break };
            *slot += 1;
            leases.push(self.grant(&chosen, request, now));
        }
        let asked_for = self.items.values().filter(|item| is_asked_for(item, request));
        let next_due = asked_for.filter_map(ready_at).min().map(|due| due.max(now));
        Leased { at: now, leases, next_due }
    }

    fn grant(&mut self, chosen: &ItemRef, request: &LeaseRequest, now: Timestamp) -> Lease {
        let item = self.items.get_mut(chosen).expect("it was chosen among those that are there");
        let deadline = now.plus(request.duration);
        let fence = Fence::new(item.fence.map_or(0, Fence::get).max(self.floor) + 1).unwrap();
        item.attempts += 1;
        item.expiries += u32::from(item.holder.is_some());
        item.fence = Some(fence);
        item.holder = Some(LeaseHolder { worker: request.worker.clone(), since: now, deadline });
        (item.settled, item.hold) = (None, None);
        // A timer in the future stays.
        item.due = item.due.filter(|due| *due > now);
        Lease {
            item: chosen.clone(),
            fence,
            at: item.at,
            mark: item.mark,
            deadline,
            attempts: item.attempts,
            failures: item.failures,
            expiries: item.expiries,
            lane: item.lane.clone(),
            priority: item.priority,
        }
    }

    pub(super) fn renew(&mut self, token: &LeaseToken, until: Timestamp) -> Renewal {
        if self.judge_fence(token).is_some() {
            return Renewal::Lost(self.items.get(&token.item).cloned().map(Box::new));
        }
        let holder = self.items.get_mut(&token.item).and_then(|item| item.holder.as_mut());
        let holder = holder.expect("a lease that stands has a holder");
        holder.deadline = holder.deadline.max(until);
        Renewal::Renewed(holder.deadline)
    }

    pub(super) fn list(&self, filter: &ItemFilter) -> Vec<Item> {
        self.items.values().filter(|item| passes(item, filter)).cloned().collect()
    }

    pub(super) fn adjust(
        &mut self,
        filter: &ItemFilter,
        adjustment: &Adjustment,
        now: Timestamp,
    ) -> Adjusted {
        let mut adjusted = Adjusted { matched: 0, changed: 0 };
        for item in self.items.values_mut().filter(|item| passes(item, filter)) {
            let before = item.clone();
            adjust(item, adjustment, now);
            keep_if_due(item);
            adjusted.matched += 1;
            adjusted.changed += u64::from(*item != before);
        }
        adjusted
    }
}

fn adjust(item: &mut Item, adjustment: &Adjustment, now: Timestamp) {
    match adjustment {
        Adjustment::Unblock if item.blocked => {
            set_free(item);
            item.due = earlier(item.due, Some(now));
        }
        Adjustment::Reset { to } => {
            set_free(item);
            let revoked = item.holder.take().is_some();
            if revoked {
                item.fence = item.fence.map(|fence| Fence::new(fence.get() + 1).unwrap());
            }
            item.settled = None;
            item.at = *to;
            item.mark = item.mark.max(*to);
            // The work for which the holder was woken is not done.
            item.due = earlier(item.due, Some(now).filter(|_| revoked || item.at < item.mark));
        }
        Adjustment::Defer { until } => item.hold = Some(moment(*until, now)),
        Adjustment::Prioritize { priority } => item.priority = *priority,
        Adjustment::Move { lane } => item.lane = lane.clone(),
        Adjustment::Forget { when }
            if item.due.is_none() && item.holder.is_none() && !item.blocked =>
        {
            item.forget_at = Some(moment(*when, now));
        }
        _ => {}
    }
}

/// Removes everything that keeps an item from being leased, and its counts.
fn set_free(item: &mut Item) {
    (item.blocked, item.error, item.hold) = (false, None, None);
    reset_counts(item);
}

/// An item with work is not forgotten.
fn keep_if_due(item: &mut Item) {
    if item.due.is_some() {
        item.forget_at = None;
    }
}

fn reset_counts(item: &mut Item) {
    (item.attempts, item.failures, item.expiries) = (0, 0, 0);
}

fn new_item(wake: &Wake) -> Item {
    Item {
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

/// When the item can be leased.
fn ready_at(item: &Item) -> Option<Timestamp> {
    let due = match &item.holder {
        Some(holder) => Some(holder.deadline),
        None => item.due,
    };
    due.filter(|_| !item.blocked).map(|due| item.hold.map_or(due, |hold| due.max(hold)))
}

fn is_asked_for(item: &Item, request: &LeaseRequest) -> bool {
    item.item.queue == request.queue && request.lane.as_ref().is_none_or(|lane| *lane == item.lane)
}

fn passes(item: &Item, filter: &ItemFilter) -> bool {
    is_meant(item.item.queue.as_str(), &filter.queue)
        && is_meant(item.item.key.as_str(), &filter.key)
        && filter.lane.as_ref().is_none_or(|lane| *lane == item.lane)
        && filter.blocked.is_none_or(|blocked| blocked == item.blocked)
        && filter.held.is_none_or(|held| held == item.holder.is_some())
}

fn is_meant(name: &str, pattern: &NamePattern) -> bool {
    match pattern {
        NamePattern::Any => true,
        NamePattern::OneOf(names) => names.iter().any(|one| one == name),
        NamePattern::Like(pattern) => is_like(pattern, name),
    }
}

/// Whether the name matches the glob: `*` matches any characters and `?` matches one.
fn is_like(pattern: &str, name: &str) -> bool {
    let rest = |text: &str| text.chars().skip(1).collect::<String>();
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), Some(_)) => is_like(&rest(pattern), name) || is_like(pattern, &rest(name)),
        (Some('*'), None) => is_like(&rest(pattern), name),
        (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
            is_like(&rest(pattern), &rest(name))
        }
        _ => false,
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

fn later(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().max()
}

fn cut(error: &str) -> String {
    let readable = |c| if c == '\0' { '\u{fffd}' } else { c };
    let kept: String = error.chars().take(limits::ERROR_CHARS).map(readable).collect();
    if error.chars().count() > limits::ERROR_CHARS { kept + "…" } else { kept }
}

fn kind(exit: &Settle) -> SettleKind {
    match exit {
        Settle::Ack { .. } => SettleKind::Ack,
        Settle::Retry { .. } => SettleKind::Retry,
        Settle::Defer { .. } => SettleKind::Defer,
        Settle::Block { .. } => SettleKind::Block,
        Settle::Release => SettleKind::Release,
    }
}
