//! Countdown to the next time that one of a worker's callers holds its leases and waits.

use parking_lot::Mutex;

use crate::worker_spec::Holds;

/// Number of leases before a worker holds: soon, and not with the first.
const HOLDS_AFTER: u64 = 5;

#[derive(Debug)]
pub(super) struct Countdown {
    from: Option<u64>,
    /// Leases left; none while a caller holds, or if none ever does.
    left: Mutex<Option<u64>>,
}

impl Countdown {
    pub(super) fn of(holds: Holds) -> Self {
        Self::from((holds != Holds::Never).then_some(HOLDS_AFTER))
    }

    fn from(from: Option<u64>) -> Self {
        Self { from, left: Mutex::new(from) }
    }

    /// Some if the countdown ends with these leases. Only one caller at a time gets it.
    pub(super) fn over_with(&self, leases: u64) -> Option<Over<'_>> {
        let mut left = self.left.lock();
        let before = left.take();
        *left = before.and_then(|before| before.checked_sub(leases)).filter(|left| *left > 0);
        (before.is_some() && left.is_none()).then(|| Over(self))
    }
}

/// The next countdown begins when this is dropped: also with a handler that lost its lease while it
/// waited.
#[derive(Debug)]
pub(super) struct Over<'a>(&'a Countdown);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.left.lock() = self.0.from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_at_a_time_holds_and_then_another_may() {
        let countdown = Countdown::from(Some(5));
        let over = [4, 1, 9].map(|leases| countdown.over_with(leases));
        assert_eq!(over.each_ref().map(Option::is_some), [false, true, false]);
        drop(over);
        assert!(countdown.over_with(7).is_some());
        assert!(Countdown::of(Holds::Never).over_with(u64::MAX).is_none());
    }
}
