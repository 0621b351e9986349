//! How often, and how soon, a decision is taken again.

use std::sync::Mutex;
use std::time::Duration;

use crate::deadline;
use tokio::time::Instant;

/// What to do about conflicts, and about a store that does not answer: how many attempts, what
/// pauses between them, and until when.
///
/// The pause before attempt n is drawn between nothing and `first_pause` doubled n - 2 times, but
/// no more than `longest_pause`: those who met in a conflict do not meet again in step. The
/// deadline ends the waiting, never a commit that is under way: what comes back is always known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many attempts at most, the first one included.
    pub attempts: u32,
    /// The longest pause before the second attempt.
    pub first_pause: Duration,
    /// The longest pause before any.
    pub longest_pause: Duration,
    /// How long to go on.
    pub deadline: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Twelve attempts within half a minute, with pauses of at most 4 ms at first and 250 ms later.
    fn default() -> Self {
        Self {
            attempts: 12,
            first_pause: Duration::from_millis(4),
            longest_pause: Duration::from_millis(250),
            deadline: Some(Duration::from_secs(30)),
        }
    }
}

impl RetryPolicy {
    /// One attempt.
    pub fn never() -> Self {
        Self::attempts(1)
    }

    /// So many attempts, all else as by default.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// The same, for so long.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same, without pauses.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        (self.first_pause, self.longest_pause) = (Duration::ZERO, Duration::ZERO);
        self
    }

    pub(crate) fn begin(self) -> Attempts {
        Attempts { policy: self, made: 1, since: None }
    }

    /// The longest pause after so many attempts.
    fn longest_after(&self, made: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(made.saturating_sub(1));
        self.first_pause.saturating_mul(doubled).min(self.longest_pause)
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    /// The one that is under way included.
    pub(crate) made: u32,
    /// Only looked at when something has to be waited for.
    since: Option<Instant>,
}

impl Attempts {
    /// When to stop waiting. The time counts from the first wait, which is when the call first
    /// could not go on.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.policy.deadline.map(|long| deadline::later(since, long))
    }

    /// Waits before the next attempt; says no if there is none left.
    pub(crate) async fn next(&mut self, random: &Random) -> bool {
        if self.made >= self.policy.attempts {
            return false;
        }
        let pause = random.up_to(self.policy.longest_after(self.made));
        if self.deadline().is_some_and(|until| deadline::after(pause) >= until) {
            return false;
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        self.made += 1;
        true
    }
}

/// Where jitter comes from.
#[derive(Debug, Default)]
pub(crate) struct Random(Mutex<fastrand::Rng>);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    pub(crate) fn up_to(&self, longest: Duration) -> Duration {
        let mut random = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        longest.mul_f64(random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let policy =
            RetryPolicy { longest_pause: Duration::from_millis(20), ..RetryPolicy::default() };
        let longest: Vec<u128> =
            (1..6).map(|made| policy.longest_after(made).as_millis()).collect();
        assert_eq!(longest, [4, 8, 16, 20, 20]);
        assert_eq!(policy.longest_after(u32::MAX), policy.longest_pause);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_their_number_or_with_the_deadline() {
        let random = Random::seeded(7);
        let mut few = RetryPolicy::attempts(3).begin();
        assert!(few.next(&random).await && few.next(&random).await);
        assert!(!few.next(&random).await);
        assert_eq!(few.made, 3);

        let mut short = RetryPolicy::attempts(u32::MAX).within(Duration::from_secs(2)).begin();
        let began = Instant::now();
        while short.next(&random).await {}
        assert!(began.elapsed() <= Duration::from_secs(2) && short.made > 8, "{short:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn two_callers_do_not_pause_in_step_and_a_seed_repeats_itself() {
        let drawn = |seed| {
            let random = Random::seeded(seed);
            [random.up_to(Duration::from_secs(1)), random.up_to(Duration::from_secs(1))]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
