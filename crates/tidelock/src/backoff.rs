//! Backoff: how long to wait before the next attempt.

use std::time::Duration;

use tidelock_store::limits;

/// Backoff: the pauses after the first, second, third failed attempt and so on.
///
/// Part of a [`Retry`](crate::Retry).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use tidelock::prelude::*;
///
/// let backoff = Backoff::exponential(Duration::from_millis(200), Duration::from_secs(30));
/// assert_eq!(backoff.after(0, 0.5), Duration::from_millis(200));
/// assert_eq!(backoff.after(2, 0.5), Duration::from_millis(800));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    growth: Growth,
    first: Duration,
    longest: Duration,
    jitter: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Fixed,
    Linear,
    Exponential,
}

impl Backoff {
    /// The default where the pause is stored and holds no resources: steps and reactions.
    pub(crate) const STORED: Self =
        Self::exponential(Duration::from_millis(100), Duration::from_secs(60)).with_jitter(0.5);

    /// Retries at once, without pauses.
    pub const fn none() -> Self {
        Self::fixed(Duration::ZERO)
    }

    /// Waits the same time after each failure.
    pub const fn fixed(pause: Duration) -> Self {
        Self { growth: Growth::Fixed, first: pause, longest: pause, jitter: 0.0 }
    }

    /// Waits `first`, then twice, three times, four times as long, up to `longest`.
    pub const fn linear(first: Duration, longest: Duration) -> Self {
        Self { growth: Growth::Linear, first, longest, jitter: 0.0 }
    }

    /// Waits `first`, then twice, four times, eight times as long, up to `longest`.
    pub const fn exponential(first: Duration, longest: Duration) -> Self {
        Self { growth: Growth::Exponential, first, longest, jitter: 0.0 }
    }

    /// Sets the jitter: each pause is shortened by a random share of up to `share`.
    ///
    /// With 0.5, a pause takes between half and all of its length; with 1.0, between nothing and
    /// all of it (full jitter). Jitter spreads out the retries of calls that failed together.
    #[must_use]
    pub const fn with_jitter(mut self, share: f64) -> Self {
        self.jitter = share.clamp(0.0, 1.0);
        self
    }

    /// Returns the pause after this many earlier failures. `random` is between 0 and 1.
    pub fn after(&self, failures: u32, random: f64) -> Duration {
        let wait = match self.growth {
            Growth::Fixed => self.first,
            Growth::Linear => self.first.saturating_mul(failures.saturating_add(1)),
            Growth::Exponential => {
                self.first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX))
            }
        };
        // The longest hold that stores accept.
        let cut = (self.jitter * random).clamp(0.0, 1.0);
        wait.min(self.longest).min(limits::HORIZON).mul_f64(if cut.is_nan() {
            1.0
        } else {
            1.0 - cut
        })
    }
}

impl Default for Backoff {
    /// 100 milliseconds, doubling up to a minute, with a jitter of 0.5.
    fn default() -> Self {
        Self::STORED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(backoff: Backoff, random: f64) -> Vec<u128> {
        (0..5).map(|failures| backoff.after(failures, random).as_millis()).collect()
    }

    #[test]
    fn each_kind_grows_as_it_says_and_not_past_the_longest() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_millis(350));
        assert_eq!(waits(Backoff::fixed(first), 0.0), [100; 5]);
        assert_eq!(waits(Backoff::linear(first, longest), 0.0), [100, 200, 300, 350, 350]);
        assert_eq!(waits(Backoff::exponential(first, longest), 0.0), [100, 200, 350, 350, 350]);
        assert_eq!(Backoff::exponential(first, longest).after(u32::MAX, 0.0), longest);
    }

    #[test]
    fn no_wait_is_longer_than_a_store_holds_anything() {
        let long = [Duration::ZERO, Duration::from_nanos(1), limits::HORIZON, Duration::MAX];
        for (first, longest) in
            long.into_iter().flat_map(|first| long.map(|longest| (first, longest)))
        {
            for backoff in [
                Backoff::fixed(first),
                Backoff::linear(first, longest),
                Backoff::exponential(first, longest),
                Backoff::exponential(first, longest).with_jitter(f64::INFINITY),
                Backoff::fixed(first).with_jitter(f64::NAN),
            ] {
                for (failures, random) in
                    [(0, 0.0), (1, 1.0), (31, 0.5), (32, f64::NAN), (u32::MAX, -1.0)]
                {
                    assert!(backoff.after(failures, random) <= limits::HORIZON, "{backoff:?}");
                }
            }
        }
    }

    #[test]
    fn jitter_only_shortens() {
        let backoff = Backoff::fixed(Duration::from_millis(100)).with_jitter(0.5);
        assert_eq!(backoff.after(0, 0.0).as_millis(), 100);
        assert_eq!(backoff.after(0, 1.0).as_millis(), 50);
    }
}
