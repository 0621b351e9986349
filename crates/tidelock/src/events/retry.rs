//! Retry policy of decisions: attempts, backoff and deadline.

use std::sync::Mutex;
use std::time::Duration;

use crate::deadline;
use tokio::time::Instant;

/// Retry policy for conflicts and for a store that does not answer: number of attempts, backoff and
/// deadline.
///
/// The backoff is exponential with full jitter: the pause before attempt n is random between zero
/// and `first_pause` doubled n - 2 times, limited to `longest_pause`. The deadline ends waiting,
/// never a commit in flight: the returned outcome is always known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub attempts: u32,
    /// Upper bound of the pause before the second attempt.
    pub first_pause: Duration,
    /// Upper bound of every pause.
    pub longest_pause: Duration,
    /// Time limit of the whole call.
    pub deadline: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Twelve attempts within 30 seconds, with pauses of at most 4 ms at first and 250 ms later.
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
    /// Makes a single attempt.
    pub fn never() -> Self {
        Self::attempts(1)
    }

    /// Sets the number of attempts; everything else has its default.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Removes the pauses between attempts.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        (self.first_pause, self.longest_pause) = (Duration::ZERO, Duration::ZERO);
        self
    }

    pub(crate) fn begin(self) -> Attempts {
        Attempts { policy: self, made: 1, since: None }
    }

    /// Upper bound of the pause after this many attempts.
    fn longest_after(&self, made: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(made.saturating_sub(1));
        self.first_pause.saturating_mul(doubled).min(self.longest_pause)
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    /// Includes the attempt in flight.
    pub(crate) made: u32,
    /// Read only when the call first has to wait.
    since: Option<Instant>,
}

impl Attempts {
    /// Returns when to stop waiting. The time counts from the first wait, which is when the call
    /// first could not proceed.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.policy.deadline.map(|long| deadline::later(since, long))
    }

    /// Waits before the next attempt. Returns `false` if there is none left.
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

/// Source of jitter.
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
    async fn pauses_are_random_and_repeatable_by_seed() {
        let drawn = |seed| {
            let random = Random::seeded(seed);
            [random.up_to(Duration::from_secs(1)), random.up_to(Duration::from_secs(1))]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
