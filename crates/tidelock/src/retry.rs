//! Retry policy: how often a failed call is repeated, with which pauses, and for how long.
//!
//! One type for all patterns. What a caller does not set has the default of the call that it is
//! given to; those defaults are the constants of [`RetryLimits`].

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::deadline;

/// A retry policy: the number of attempts, the pauses between them, and a time limit.
///
/// Given to a [handle](crate::Tidelock::with_retry), a
/// [decision](crate::events::Decision::retry), a [transaction](crate::Transact::retry), a
/// [step](crate::runs::Step::retry), a [reaction](crate::reactions::Subscription::retry), a
/// [job](crate::jobs::JobOptions::retry) or a [lock](crate::claims::Lock::retry). What is not set
/// has the default of that call:
///
/// | | attempts | backoff | time limit |
/// |---|---|---|---|
/// | decision, transaction, scope, commit | 12 | exponential from 4 to 250 ms, full jitter | 30 seconds |
/// | step of a run | 10 | exponential from 100 ms to a minute, jitter 0.5 | none |
/// | step of a run, at most once | 1 | the same | none |
/// | reaction | 6 | the same | none |
/// | job | 20 | exponential from a second to an hour, jitter 0.5 | none |
/// | lock | no limit | linear from 100 ms to a second, jitter 0.5 | half a second |
///
/// A [compound claim](crate::claims::Compound::retry) does not wait for its locks, unless it is
/// given a policy; then it has the defaults of a lock.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use tidelock::prelude::*;
///
/// let patient = Retry::attempts(5)
///     .backoff(Backoff::exponential(Duration::from_millis(200), Duration::from_secs(30)))
///     .within(Duration::from_secs(60));
/// # let _ = patient;
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[must_use]
pub struct Retry {
    attempts: Option<u32>,
    backoff: Option<Backoff>,
    within: Option<Duration>,
}

impl Retry {
    /// Sets the maximum number of attempts, including the first.
    pub const fn attempts(attempts: u32) -> Self {
        Self { attempts: Some(attempts), backoff: None, within: None }
    }

    /// Makes a single attempt.
    pub const fn never() -> Self {
        Self::attempts(1)
    }

    /// Sets no limit: neither a number of attempts nor a time limit.
    pub const fn unlimited() -> Self {
        Self::attempts(u32::MAX).within(Duration::MAX)
    }

    /// Sets the pauses between attempts.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Sets the time limit: no attempt begins later than this after the call first failed or had to
    /// wait.
    ///
    /// It ends waiting, never a commit in flight: the returned outcome is always known.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// The time limit, if there is one.
    pub(crate) fn time_limit(self) -> Option<Duration> {
        self.within.filter(|limit| *limit < Duration::MAX)
    }

    /// Fills what is not set.
    pub(crate) fn or(self, default: RetryLimits) -> RetryLimits {
        RetryLimits {
            attempts: self.attempts.unwrap_or(default.attempts),
            backoff: self.backoff.unwrap_or(default.backoff),
            within: self.within.map_or(default.within, |_| self.time_limit()),
        }
    }
}

/// A retry policy without gaps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RetryLimits {
    /// Includes the first attempt.
    pub(crate) attempts: u32,
    pub(crate) backoff: Backoff,
    pub(crate) within: Option<Duration>,
}

impl RetryLimits {
    /// For calls that hold a task of the caller: decisions, transactions, scopes, commits.
    pub(crate) const CALL: Self = Self {
        attempts: 12,
        backoff: Backoff::exponential(Duration::from_millis(4), Duration::from_millis(250))
            .with_jitter(1.0),
        within: Some(Duration::from_secs(30)),
    };

    /// For steps of runs, whose pauses are stored.
    pub(crate) const STEP: Self = Self { attempts: 10, backoff: Backoff::STORED, within: None };

    /// For at-most-once steps.
    pub(crate) const AT_MOST_ONCE: Self = Self { attempts: 1, ..Self::STEP };

    /// For reactions, whose pauses are stored.
    pub(crate) const REACTION: Self = Self { attempts: 6, backoff: Backoff::STORED, within: None };

    /// For jobs, whose pauses are stored. Twenty attempts take about a night: what a job needs is
    /// often a service that is down for hours.
    pub(crate) const JOB: Self = Self {
        attempts: 20,
        backoff: Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3_600))
            .with_jitter(0.5),
        within: None,
    };

    pub(crate) fn begin(self) -> Attempts {
        Attempts { limits: self, made: 1, since: None }
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    limits: RetryLimits,
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
        self.limits.within.map(|long| deadline::later(since, long))
    }

    /// Waits before the next attempt. Returns `false` if there is none left.
    pub(crate) async fn next(&mut self, random: &Random) -> bool {
        if self.made >= self.limits.attempts {
            return false;
        }
        let pause = self.limits.backoff.after(self.made - 1, random.share());
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

    /// Draws a number between 0 and 1.
    pub(crate) fn share(&self) -> f64 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_the_default_of_the_call() {
        assert_eq!(Retry::default().or(RetryLimits::CALL), RetryLimits::CALL);
        let few = Retry::attempts(3).or(RetryLimits::CALL);
        assert_eq!(few, RetryLimits { attempts: 3, ..RetryLimits::CALL });
        let short = Retry::default().within(Duration::ZERO).or(RetryLimits::STEP);
        assert_eq!(short, RetryLimits { within: Some(Duration::ZERO), ..RetryLimits::STEP });
        let unlimited = Retry::unlimited().or(RetryLimits::CALL);
        assert_eq!((unlimited.attempts, unlimited.within), (u32::MAX, None));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_their_number_or_with_the_time_limit() {
        let random = Random::seeded(7);
        let mut few = Retry::attempts(3).or(RetryLimits::CALL).begin();
        assert!(few.next(&random).await && few.next(&random).await);
        assert!(!few.next(&random).await);
        assert_eq!(few.made, 3);

        let short = Retry::attempts(u32::MAX).within(Duration::from_secs(2));
        let mut short = short.or(RetryLimits::CALL).begin();
        let began = Instant::now();
        while short.next(&random).await {}
        assert!(began.elapsed() <= Duration::from_secs(2) && short.made > 8, "{short:?}");
    }

    #[test]
    fn pauses_are_random_and_repeatable_by_seed() {
        let drawn = |seed| {
            let random = Random::seeded(seed);
            [random.share(), random.share()]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
