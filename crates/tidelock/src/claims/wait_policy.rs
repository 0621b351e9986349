//! How long to wait for somebody else, and how often to look.
//!
//! Whoever waits is told by a signal, which is a hint; the pauses are for when none comes.

use std::time::Duration;

use tidelock_store::ChangeHint;
use tokio::time::Instant;

use crate::deadline;
use crate::events::Random;

/// Pauses do not grow beyond this.
const LONGEST: Duration = Duration::from_secs(1);

/// How long to wait, and how often to look meanwhile without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long to wait altogether.
    pub deadline: Duration,
    /// The shortest pause between two looks.
    pub shortest_pause: Duration,
    /// The longest pause before the second look; later ones grow, up to a second.
    pub longest_pause: Duration,
}

impl WaitPolicy {
    /// Half a second, with pauses of 50 to 100 ms: for what is held as briefly as a counter is.
    pub const SHORT: Self = Self::new(500, 50, 100);
    /// Two seconds, with pauses of 100 to 200 ms: for work of one's own.
    pub const LONG: Self = Self::new(2_000, 100, 200);

    const fn new(deadline: u64, shortest: u64, longest: u64) -> Self {
        Self {
            deadline: Duration::from_millis(deadline),
            shortest_pause: Duration::from_millis(shortest),
            longest_pause: Duration::from_millis(longest),
        }
    }

    /// Not at all.
    pub const fn none() -> Self {
        Self { deadline: Duration::ZERO, ..Self::SHORT }
    }

    /// So long, with the pauses that are usual for so long.
    pub fn of(deadline: Duration) -> Self {
        let usual = if deadline <= Self::SHORT.deadline { Self::SHORT } else { Self::LONG };
        Self { deadline, ..usual }
    }

    pub(super) fn begin(self) -> Waiting {
        let began = Instant::now();
        let until = deadline::later(began, self.deadline);
        Waiting { patience: self, began, until, looks: 0 }
    }
}

/// One wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    patience: WaitPolicy,
    began: Instant,
    until: Instant,
    pub(super) looks: u32,
}

impl Waiting {
    /// Waits until it is time for another look, or until something may have happened; says no when
    /// the time is over.
    pub(super) async fn next(&mut self, signal: &mut ChangeHint, random: &Random) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let pause = self.pause(random).min(left);
        self.looks += 1;
        let _told_or_not = tokio::time::timeout(pause, signal.wait()).await;
        true
    }

    pub(super) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Between the shortest and the longest, and longer with every look.
    fn pause(&self, random: &Random) -> Duration {
        let span = self.patience.longest_pause.saturating_sub(self.patience.shortest_pause);
        let drawn = self.patience.shortest_pause + random.up_to(span);
        drawn.saturating_mul(self.looks.clamp(1, 10)).min(drawn.max(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_are_drawn_and_grow() {
        let (random, mut waiting) = (Random::seeded(7), WaitPolicy::SHORT.begin());
        for looks in 0..100 {
            waiting.looks = looks;
            let (least, most) =
                (50 * u128::from(looks.clamp(1, 10)), 100 * u128::from(looks.clamp(1, 10)));
            assert!((least..=most).contains(&waiting.pause(&random).as_millis()));
        }
        assert!(WaitPolicy::of(Duration::MAX).begin().until > Instant::now());
    }
}
