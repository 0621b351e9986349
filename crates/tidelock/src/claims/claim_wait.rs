//! Waiting for a claim: how long, and how often to poll.
//!
//! A change hint wakes the waiter; the pauses are for when none arrives.

use std::time::Duration;

use tidelock_store::ChangeHint;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::deadline;
use crate::retry::{Random, Retry, RetryLimits};

/// The default time limit.
const WITHIN: Duration = Duration::from_millis(500);

/// For claims that are held briefly.
const SHORT: Backoff = polls(Duration::from_millis(100));
/// For longer work.
const LONG: Backoff = polls(Duration::from_millis(200));

const fn polls(first: Duration) -> Backoff {
    Backoff::linear(first, Duration::from_secs(1)).with_jitter(0.5)
}

/// A wait for a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimWait {
    limits: RetryLimits,
    began: Instant,
    until: Instant,
    pub(super) polls: u32,
}

impl ClaimWait {
    pub(super) fn begin(retry: Retry) -> Self {
        let usual = RetryLimits { attempts: u32::MAX, backoff: SHORT, within: Some(WITHIN) };
        let is_short = retry.or(usual).within.is_some_and(|limit| limit <= WITHIN);
        let limits = if is_short {
            retry.or(usual)
        } else {
            retry.or(RetryLimits { backoff: LONG, ..usual })
        };
        let began = Instant::now();
        let until = deadline::later(began, limits.within.unwrap_or(Duration::MAX));
        Self { limits, began, until, polls: 0 }
    }

    /// Whether more than one attempt can be made.
    pub(super) fn may_wait(&self) -> bool {
        self.limits.attempts > 1 && !self.limits.within.is_some_and(|limit| limit.is_zero())
    }

    /// Waits until the next poll is due or a hint arrives. Returns `false` after the last one.
    pub(super) async fn next(&mut self, signal: &mut ChangeHint, random: &Random) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.polls.saturating_add(1) >= self.limits.attempts {
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

    /// Longer from the third poll on: the first two find the claims that are held briefly.
    fn pause(&self, random: &Random) -> Duration {
        self.limits.backoff.after(self.polls.saturating_sub(1), random.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_random_and_grow() {
        let (random, mut wait) = (Random::seeded(7), ClaimWait::begin(Retry::default()));
        for polls in 0..100 {
            wait.polls = polls;
            let (least, most) =
                (50 * u128::from(polls.clamp(1, 10)), 100 * u128::from(polls.clamp(1, 10)));
            assert!((least..=most).contains(&wait.pause(&random).as_millis()));
        }
        let unlimited = ClaimWait::begin(Retry::unlimited());
        assert!(unlimited.until > Instant::now());
        assert!(unlimited.limits.within.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_attempt_does_not_wait() {
        assert!(!ClaimWait::begin(Retry::never()).may_wait());
        assert!(!ClaimWait::begin(Retry::default().within(Duration::ZERO)).may_wait());
        assert!(ClaimWait::begin(Retry::attempts(2)).may_wait());
    }
}
