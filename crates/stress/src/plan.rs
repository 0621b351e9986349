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

/// Halves, and two victims that consume.
pub(crate) fn halves_and_victims(workers: usize, holds: Holds) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.extend([(VICTIM, Role::Consumer(holds)); 2]);
    slots
}

/// Halves, two reactors, and two victims that react.
pub(crate) fn halves_and_reactors(workers: usize) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.extend([(REACTOR, Role::Reactor(Holds::Never)); 2]);
    slots.extend([(VICTIM, Role::Reactor(Holds::Alone)); 2]);
    slots
}

/// Halves, one starter, two runners, and two victims that drive runs.
pub(crate) fn halves_and_runners(workers: usize) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.push((STARTER, Role::Starter));
    slots.extend([(RUNNER, Role::Runner(Holds::Never)); 2]);
    slots.extend([(VICTIM, Role::Runner(Holds::Alone)); 2]);
    slots
}

/// Halves, two claimants, and two victims that claim.
pub(crate) fn halves_and_claimants(workers: usize) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.extend([(CLAIMANT, Role::Claimant(Holds::Never)); 2]);
    slots.extend([(VICTIM, Role::Claimant(Holds::Alone)); 2]);
    slots
}

/// Halves, and three changers.
pub(crate) fn halves_and_changers(workers: usize) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.extend([(CHANGER, Role::Changer); 3]);
    slots
}

/// Halves, two bookers, and two closers.
pub(crate) fn halves_and_closers(workers: usize) -> Vec<WorkerSlot> {
    let mut slots = halves(workers);
    slots.extend([(BOOKER, Role::Booker); 2]);
    slots.extend([(CLOSER, Role::Closer); 2]);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_at_least_one_worker() {
        for workers in 1..6 {
            let slots = halves_and_victims(workers, Holds::Alone);
            for name in [FOLLOWER, COMMITTER, CONSUMER, VICTIM] {
                assert!(
                    slots.iter().any(|(slot, _)| *slot == name),
                    "{workers} workers and no {name}"
                );
            }
            assert_eq!(slots.len(), workers.max(2) + 3);
        }
    }
}
