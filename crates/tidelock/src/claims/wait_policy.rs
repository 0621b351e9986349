//! Wait policy: how long to wait for a claim, and how often to poll.
//!
//! A change hint wakes the waiter; the pauses are for when none arrives.

use std::time::Duration;

use tidelock_store::ChangeHint;
use tokio::time::Instant;

use crate::deadline;
use crate::events::Random;

/// Upper bound of the growing pauses.
const LONGEST: Duration = Duration::from_secs(1);

/// How long to wait, and how often to poll meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPolicy {
    /// The maximum total wait.
    pub deadline: Duration,
    /// The shortest pause between two polls.
    pub shortest_pause: Duration,
    /// The longest pause before the second poll; later pauses grow up to a second.
    pub longest_pause: Duration,
}

impl WaitPolicy {
    /// Half a second, with pauses of 50 to 100 ms: for claims held briefly.
    pub const SHORT: Self = Self::new(500, 50, 100);
    /// Two seconds, with pauses of 100 to 200 ms: for longer work.
    pub const LONG: Self = Self::new(2_000, 100, 200);

    const fn new(deadline: u64, shortest: u64, longest: u64) -> Self {
        Self {
            deadline: Duration::from_millis(deadline),
            shortest_pause: Duration::from_millis(shortest),
            longest_pause: Duration::from_millis(longest),
        }
    }

    /// Does not wait.
    pub const fn none() -> Self {
        Self { deadline: Duration::ZERO, ..Self::SHORT }
    }

    /// Waits this long, with pauses suitable for that duration.
    pub fn of(deadline: Duration) -> Self {
        let usual = if deadline <= Self::SHORT.deadline { Self::SHORT } else { Self::LONG };
        Self { deadline, ..usual }
    }

    pub(super) fn begin(self) -> Waiting {
        let began = Instant::now();
        let until = deadline::later(began, self.deadline);
        Waiting { policy: self, began, until, polls: 0 }
    }
}

/// A wait in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    policy: WaitPolicy,
    began: Instant,
    until: Instant,
    pub(super) polls: u32,
}

impl Waiting {
    /// Waits until the next poll is due or a hint arrives. Returns `false` after the deadline.
    pub(super) async fn next(&mut self, signal: &mut ChangeHint, random: &Random) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let pause = self.pause(random).min(left);
        self.polls += 1;
        let _told_or_not = tokio::time::timeout(pause, signal.wait()).await;
        true
    }

    pub(super) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Random between the shortest and the longest pause, and longer with every poll.
    fn pause(&self, random: &Random) -> Duration {
        let span = self.policy.longest_pause.saturating_sub(self.policy.shortest_pause);
        let pause = self.policy.shortest_pause + random.up_to(span);
        pause.saturating_mul(self.polls.clamp(1, 10)).min(pause.max(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_random_and_grow() {
        let (random, mut waiting) = (Random::seeded(7), WaitPolicy::SHORT.begin());
        for polls in 0..100 {
            waiting.polls = polls;
            let (least, most) =
                (50 * u128::from(polls.clamp(1, 10)), 100 * u128::from(polls.clamp(1, 10)));
            assert!((least..=most).contains(&waiting.pause(&random).as_millis()));
        }
        assert!(WaitPolicy::of(Duration::MAX).begin().until > Instant::now());
    }
}
