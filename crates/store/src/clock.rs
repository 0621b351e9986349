//! Time, as a store sees it.
//!
//! Deadlines, expiries and due times are compared on the store's clock and on no other.
//! [`StoreClock`] is that clock for stores that run inside this process: it follows the machine's
//! wall clock forward, and when somebody sets that clock back it goes on at the pace of the
//! monotonic one, so that no lease lives for ever and none is granted twice. This is the only file
//! that reads the calendar.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Result, StoreError};
use crate::limits;

/// A moment, to the microsecond. Written and read as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that can be written with a year of four digits.
    const LAST: i64 = 253_402_207_200_000_000 - 1;

    /// The moment that many microseconds after the start of 1970, in UTC.
    pub fn from_micros(micros: i64) -> Result<Self> {
        if !(0..=Self::LAST).contains(&micros) {
            return Err(StoreError::invalid(format!(
                "timestamp of {micros} microseconds is not between the years 1970 and 9999"
            )));
        }
        Ok(Self(micros))
    }

    /// Microseconds since the start of 1970, in UTC.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This long after; the last moment there is if that is later still.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(Self::LAST))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{moment:.6}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let moment = jiff::Timestamp::from_str(text).map_err(|e| {
            StoreError::invalid(format!(
                "timestamp {text:?} is not of the form 2026-01-31T12:00:00Z"
            ))
            .caused_by(e)
        })?;
        Self::from_micros(moment.as_microsecond())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A moment to come: at a time, or this long from when the store reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At this moment of the store's clock. A moment that has passed means at once.
    At(Timestamp),
    /// This long after the store begins the commit.
    In(Duration),
}

impl When {
    /// At once.
    pub const NOW: Self = Self::In(Duration::ZERO);

    /// The moment meant, when the store's clock says `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::In(duration) => now.plus(duration),
        }
    }

    pub(crate) fn check(self, what: &str) -> Result<()> {
        match self {
            Self::In(duration) if duration > limits::HORIZON => Err(StoreError::limit(format!(
                "{what} lies {duration:?} ahead; the limit is {:?}",
                limits::HORIZON
            ))),
            _ => Ok(()),
        }
    }
}

/// Where a [`StoreClock`] gets its time from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// What the calendar says. May be set forward and back while the process runs.
    fn wall(&self) -> Timestamp;

    /// Time that has passed since some fixed point. Never goes back.
    fn elapsed(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(0).plus(since_1970)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until it is told to move, for tests.
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<(Timestamp, Duration)>>,
}

impl ManualClock {
    /// A clock that stands at this moment.
    pub fn at(start: Timestamp) -> Self {
        Self { state: Arc::new(Mutex::new((start, Duration::ZERO))) }
    }

    /// Lets time pass.
    pub fn advance(&self, duration: Duration) {
        self.change(|(wall, elapsed)| {
            *wall = wall.plus(duration);
            *elapsed += duration;
        });
    }

    /// Sets the calendar forward, as an administrator would; no time passes.
    pub fn set_forward(&self, duration: Duration) {
        self.change(|(wall, _)| *wall = wall.plus(duration));
    }

    /// Sets the calendar back, as an administrator would; no time passes.
    pub fn set_back(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        self.change(|(wall, _)| *wall = Timestamp(wall.0.saturating_sub(micros).max(0)));
    }

    fn change(&self, change: impl FnOnce(&mut (Timestamp, Duration))) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn read(&self) -> (Timestamp, Duration) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    /// A clock that stands at the start of 2030.
    fn default() -> Self {
        Self::at(Timestamp(1_893_456_000_000_000))
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.read().0
    }

    fn elapsed(&self) -> Duration {
        self.read().1
    }
}

/// A clock that never goes back.
#[derive(Debug)]
pub struct StoreClock {
    source: Arc<dyn Clock>,
    /// The latest moment given out, and what had elapsed then.
    latest: Mutex<(Timestamp, Duration)>,
}

impl StoreClock {
    /// A clock on top of this source.
    pub fn new(source: Arc<dyn Clock>) -> Self {
        let latest = Mutex::new((source.wall(), source.elapsed()));
        Self { source, latest }
    }

    /// The moment it is now: never before one that was given out earlier.
    pub fn now(&self) -> Timestamp {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (moment, elapsed) = *latest;
        // The calendar first: whoever is interrupted between the two is behind for a moment, and
        // not ahead for good.
        let wall = self.source.wall();
        let passed = self.source.elapsed();
        let now = wall.max(moment.plus(passed.saturating_sub(elapsed)));
        *latest = (now, passed);
        now
    }

    /// Makes sure that no moment before this one is given out any more: another process has seen
    /// it.
    pub fn at_least(&self, seen: Timestamp) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if seen > latest.0 {
            *latest = (seen, self.source.elapsed());
        }
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_its_text() {
        let moment = Timestamp::from_micros(1_893_456_000_000_001).unwrap();
        assert_eq!(moment.to_string(), "2030-01-01T00:00:00.000001Z");
        assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
        assert!(
            "next tuesday".parse::<Timestamp>().unwrap_err().to_string().contains("next tuesday")
        );
        assert!(Timestamp(Timestamp::LAST).to_string().starts_with("9999-"));
    }

    #[test]
    fn the_store_clock_goes_on_when_the_calendar_is_set_back() {
        let manual = ManualClock::default();
        let clock = StoreClock::new(Arc::new(manual.clone()));
        let before = clock.now();
        manual.set_back(Duration::from_secs(3600));
        assert_eq!(clock.now(), before, "it does not go back");
        manual.advance(Duration::from_secs(30));
        assert_eq!(
            clock.now(),
            before.plus(Duration::from_secs(30)),
            "and it does not stand still"
        );
        manual.set_forward(Duration::from_secs(7200));
        assert_eq!(clock.now(), manual.wall(), "it follows the calendar forward");
    }
}
