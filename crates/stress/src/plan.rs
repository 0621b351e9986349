//! The worker plan of a scenario: how many processes of each role.

use crate::worker_spec::{Holds, Role};

/// The name prefix of followers.
pub(crate) const FOLLOWER: &str = "follower";
pub(crate) const COMMITTER: &str = "committer";
pub(crate) const CONSUMER: &str = "consumer";
/// Consumers that are disturbed while they hold leases.
pub(crate) const VICTIM: &str = "victim";

/// Processes that run an application with reactions.
pub(crate) const REACTOR: &str = "reactor";

/// Processes that start runs, and processes that drive them.
pub(crate) const STARTER: &str = "starter";
pub(crate) const RUNNER: &str = "runner";

/// Processes that claim rights.
pub(crate) const CLAIMANT: &str = "claimant";

/// Processes that change scopes.
pub(crate) const CHANGER: &str = "changer";

/// Processes that book in accounts, and processes that close their books.
pub(crate) const BOOKER: &str = "booker";
pub(crate) const CLOSER: &str = "closer";

/// A role and the name that its workers share.
pub(crate) type WorkerSlot = (&'static str, Role);

/// Half committers and half consumers, with one committer more if the number is odd, and one
/// follower.
pub(crate) fn halves(workers: usize) -> Vec<WorkerSlot> {
    let consumers = (workers / 2).max(1);
    let committers = workers.saturating_sub(consumers).max(1);
    let mut slots = vec![(FOLLOWER, Role::Follower)];
    slots.extend(vec![(COMMITTER, Role::Committer); committers]);
    slots.extend(vec![(CONSUMER, Role::Consumer(Holds::Never)); consumers]);
    slots
}
