//! Who plays in a scenario: how many workers of each role.

use crate::part::{Holds, Role};

/// The name that followers go by.
pub(crate) const FOLLOWER: &str = "follower";
pub(crate) const COMMITTER: &str = "committer";
pub(crate) const CONSUMER: &str = "consumer";
/// Consumers to whom something happens while they hold leases.
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
pub(crate) type Seat = (&'static str, Role);

/// Committers and consumers by halves, with a committer more if the number is odd, and one that
/// follows the feed.
pub(crate) fn halves(workers: usize) -> Vec<Seat> {
    let consumers = (workers / 2).max(1);
    let committers = workers.saturating_sub(consumers).max(1);
    let mut seats = vec![(FOLLOWER, Role::Follower)];
    seats.extend(vec![(COMMITTER, Role::Committer); committers]);
    seats.extend(vec![(CONSUMER, Role::Consumer(Holds::Never)); consumers]);
    seats
}

/// The same, and two victims beside them.
pub(crate) fn halves_and_victims(workers: usize, holds: Holds) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.extend([(VICTIM, Role::Consumer(holds)); 2]);
    seats
}

/// Halves, two that react, and two victims that react too.
pub(crate) fn halves_and_reactors(workers: usize) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.extend([(REACTOR, Role::Reactor(Holds::Never)); 2]);
    seats.extend([(VICTIM, Role::Reactor(Holds::Alone)); 2]);
    seats
}

/// Halves, one that starts runs, two that drive them, and two victims that drive them too.
pub(crate) fn halves_and_runners(workers: usize) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.push((STARTER, Role::Starter));
    seats.extend([(RUNNER, Role::Runner(Holds::Never)); 2]);
    seats.extend([(VICTIM, Role::Runner(Holds::Alone)); 2]);
    seats
}

/// Halves, two that claim rights, and two victims that claim them too.
pub(crate) fn halves_and_claimants(workers: usize) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.extend([(CLAIMANT, Role::Claimant(Holds::Never)); 2]);
    seats.extend([(VICTIM, Role::Claimant(Holds::Alone)); 2]);
    seats
}

/// Halves, and three that change scopes.
pub(crate) fn halves_and_changers(workers: usize) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.extend([(CHANGER, Role::Changer); 3]);
    seats
}

/// Halves, two that book in accounts, and two that close their books.
pub(crate) fn halves_and_closers(workers: usize) -> Vec<Seat> {
    let mut seats = halves(workers);
    seats.extend([(BOOKER, Role::Booker); 2]);
    seats.extend([(CLOSER, Role::Closer); 2]);
    seats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_somebody_of_each_role() {
        for workers in 1..6 {
            let seats = halves_and_victims(workers, Holds::Alone);
            for name in [FOLLOWER, COMMITTER, CONSUMER, VICTIM] {
                assert!(
                    seats.iter().any(|(seat, _)| *seat == name),
                    "{workers} workers and no {name}"
                );
            }
            assert_eq!(seats.len(), workers.max(2) + 3);
        }
    }
}
