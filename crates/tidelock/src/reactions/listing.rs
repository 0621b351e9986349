//! Listing types for operators: targets, unrouted events, and the routing state of each reaction.

use serde::Serialize;
use tidelock_store::{Item, ItemRef, LaneName, LeaseHolder, Mark, Position, Priority, Timestamp};

use super::keys;

/// One target of one reaction, or one event whose route failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetInfo {
    /// The reaction.
    pub reaction: String,
    /// The target; a reserved name for an event without a route.
    pub target: String,
    /// Whether this is an event whose route failed.
    pub unrouted: bool,
    /// The cursor: a version of the target's stream, or a count of the events routed to it.
    pub at: Mark,
    /// The newest event known to belong to the target.
    pub mark: Mark,
    /// Leases since the last progress.
    pub attempts: u32,
    /// Failures since the last progress.
    pub failures: u32,
    /// Expired leases since the last progress.
    pub expiries: u32,
    /// Whether it is blocked until an operator unblocks it.
    pub blocked: bool,
    /// The last error.
    pub error: Option<String>,
    /// The current lease holder.
    pub holder: Option<LeaseHolder>,
    /// When work became, or becomes, due.
    pub due: Option<Timestamp>,
    /// Not retried before this time: a backoff or a deferral.
    pub hold: Option<Timestamp>,
    /// The lane, which decides which workers serve it.
    pub lane: LaneName,
    /// The priority.
    pub priority: Priority,
}

impl TargetInfo {
    /// Returns how many events are known to wait.
    ///
    /// This is an upper bound: some may be of types that the reaction does not handle.
    pub fn lag(&self) -> u64 {
        match self.unrouted {
            true => u64::from(self.at < self.mark),
            false => self.mark.get().saturating_sub(self.at.get()),
        }
    }

    /// Interprets a work item as a target; `None` if it is not one.
    pub fn of(item: Item) -> Option<Self> {
        Some(Self {
            reaction: keys::reaction_of(&item.item.queue)?.to_owned(),
            target: item.item.key.as_str().to_owned(),
            unrouted: keys::is_unrouted(&item.item.key),
            at: item.at,
            mark: item.mark,
            attempts: item.attempts,
            failures: item.failures,
            expiries: item.expiries,
            blocked: item.blocked,
            error: item.error,
            holder: item.holder,
            due: item.due,
            hold: item.hold,
            lane: item.lane,
            priority: item.priority,
        })
    }
}

/// The routing state of a reaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteState {
    /// The reaction.
    pub reaction: String,
    /// The route item, whose lease is the right to route.
    pub item: ItemRef,
    /// The prefix of the streams that it follows.
    pub streams: String,
    /// Events up to this position are routed.
    pub position: Position,
    /// Events up to this position are not the reaction's.
    pub start: Position,
    /// The worker that routes.
    pub holder: Option<LeaseHolder>,
    /// Whether routing is blocked until an operator decides how to continue.
    pub blocked: bool,
    /// The error that blocked it.
    pub error: Option<String>,
}

impl RouteState {
    /// Whether a worker holds a current lease to route the events.
    pub fn is_routed(&self, now: Timestamp) -> bool {
        !self.blocked && self.holder.as_ref().is_some_and(|holder| holder.deadline > now)
    }

    /// Returns how many positions the router is behind a feed that ends at `end`.
    ///
    /// This is an upper bound of the events to route, because events of other reactions have
    /// positions, too. Returns `None` while no worker routes: such a reaction is stopped, not
    /// lagging, and [the doctor](crate::doctor) reports whether events wait for it.
    pub fn lag(&self, end: Position, now: Timestamp) -> Option<u64> {
        self.is_routed(now).then(|| end.get().saturating_sub(self.position.get()))
    }
}
