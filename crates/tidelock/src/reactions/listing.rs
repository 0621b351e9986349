//! What operators see: every (reaction, target), every event without a route, and how far each
//! reaction's routing is.

use serde::Serialize;
use tidelock_store::{Item, ItemRef, LaneName, LeaseHolder, Mark, Position, Priority, Timestamp};

use super::keys;

/// One target of one reaction, or one event whose route failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetInfo {
    /// The reaction.
    pub reaction: String,
    /// The target; for an event without a route, a name of Tidelock's own.
    pub target: String,
    /// Whether this is an event whose route failed.
    pub unrouted: bool,
    /// Handled up to here: a version of the target's stream, or a count of the events routed to it.
    pub at: Mark,
    /// Events up to here are known to be the target's.
    pub mark: Mark,
    /// Leases since the last progress.
    pub attempts: u32,
    /// Failures since the last progress.
    pub failures: u32,
    /// Leases that ran out since the last progress.
    pub expiries: u32,
    /// Not to be tried until somebody unblocks it.
    pub blocked: bool,
    /// What went wrong last.
    pub error: Option<String>,
    /// Who is at it, since when, and until when it may.
    pub holder: Option<LeaseHolder>,
    /// Since or from when there is something to do.
    pub due: Option<Timestamp>,
    /// Not to be tried before this: a retry's backoff, or a deferral.
    pub hold: Option<Timestamp>,
    /// Which workers serve it.
    pub lane: LaneName,
    /// How urgent it is.
    pub priority: Priority,
}

impl TargetInfo {
    /// How many events are known to wait; an upper bound, because some may be of types that the
    /// reaction does not want.
    pub fn lag(&self) -> u64 {
        match self.unrouted {
            true => u64::from(self.at < self.mark),
            false => self.mark.get().saturating_sub(self.at.get()),
        }
    }

    /// What a work item is to its reaction; nothing, if it is not the target of one.
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

/// Targets, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FollowedPage {
    /// The targets, by reaction and target. May be fewer than asked for though more follow.
    pub targets: Vec<TargetInfo>,
    /// Read on after this, if there may be more.
    pub next: Option<ItemRef>,
}

/// How far a reaction's events are routed to their targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteState {
    /// The reaction.
    pub reaction: String,
    /// The work item that stands for the right to route its events.
    pub item: ItemRef,
    /// What the names of the streams begin with that it follows.
    pub streams: String,
    /// Routed up to here, at least.
    pub position: Position,
    /// It began after this.
    pub start: Position,
    /// Which process routes.
    pub holder: Option<LeaseHolder>,
    /// Whether routing has stopped until somebody decides how it goes on.
    pub blocked: bool,
    /// Why.
    pub error: Option<String>,
}

impl RouteState {
    /// Whether a process routes its events at this moment: it has the right to, and its time is not
    /// over.
    pub fn is_routed(&self, now: Timestamp) -> bool {
        !self.blocked && self.holder.as_ref().is_some_and(|holder| holder.deadline > now)
    }

    /// How many positions of a feed that ends here its router has yet to look at; an upper bound of
    /// the events to route, because others have positions, too. Nothing while nobody routes: then
    /// it does not lag but stands still, for ever if nobody ever runs it again, and whether
    /// anything waits for it is what [the doctor](crate::doctor) says.
    pub fn lag(&self, end: Position, now: Timestamp) -> Option<u64> {
        self.is_routed(now).then(|| end.get().saturating_sub(self.position.get()))
    }
}
