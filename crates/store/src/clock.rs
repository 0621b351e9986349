//! The store clock: time that never goes back.
//!
//! Deadlines, expiries and due times are compared on the store's clock and on no other.
//! [`StoreClock`] is that clock for stores inside this process. It follows the machine's wall clock
//! forward. When the wall clock is set back, it continues at the pace of the monotonic clock, so
//! that leases still expire and none is granted twice. This is the only file that reads the
//! calendar.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Result, StoreError};
use crate::limits;

/// A moment, with microsecond precision. Serialized as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that can be written with a year of four digits.
    const LAST: i64 = 253_402_207_200_000_000 - 1;

    /// The Unix epoch.
    pub(crate) const EPOCH: Self = Self(0);

    /// Creates the timestamp that lies `micros` microseconds after the Unix epoch (UTC).
    pub fn from_micros(micros: i64) -> Result<Self> {
        if !(0..=Self::LAST).contains(&micros) {
            return Err(StoreError::invalid(format!(
                "timestamp of {micros} microseconds is not between the years 1970 and 9999"
            )));
        }
        Ok(Self(micros))
    }

    /// Microseconds since the Unix epoch (UTC).
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Adds a duration. Saturates at the last timestamp that can be represented.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(Self::LAST))
    }

    /// The time since `earlier`; zero if `earlier` is later.
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

/// A future moment: absolute, or relative to the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At this moment of the store's clock. A moment in the past means immediately.
    At(Timestamp),
    /// This long after the store begins the commit.
    In(Duration),
}

impl When {
    /// Immediately.
    pub const NOW: Self = Self::In(Duration::ZERO);

    /// Resolves to an absolute moment, given the store's current time.
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

/// Time source of a [`StoreClock`].
pub trait Clock: fmt::Debug + Send + Sync {
    /// Reads the wall clock. It may jump forward and back while the process runs.
    fn wall(&self) -> Timestamp;

    /// Monotonic time since a fixed point. Never goes back.
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

/// A clock for tests that moves only when told to.
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<(Timestamp, Duration)>>,
}

impl ManualClock {
    /// Creates a clock that stands at `start`.
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

    /// Sets the wall clock forward, as an administrator would; no time passes.
    pub fn set_forward(&self, duration: Duration) {
        self.change(|(wall, _)| *wall = wall.plus(duration));
    }

    /// Sets the wall clock back, as an administrator would; no time passes.
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
    /// The latest moment returned, and the monotonic time then.
    latest: Mutex<(Timestamp, Duration)>,
}

impl StoreClock {
    /// Creates a clock over this time source.
    pub fn new(source: Arc<dyn Clock>) -> Self {
        let latest = Mutex::new((source.wall(), source.elapsed()));
        Self { source, latest }
    }

    /// The current time, never before a moment that was returned earlier.
    pub fn now(&self) -> Timestamp {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (moment, elapsed) = *latest;
        // The calendar is read first: an interruption between the two reads leaves the clock behind
        // for a moment, not ahead permanently.
        let wall = self.source.wall();
        let passed = self.source.elapsed();
        let now = wall.max(moment.plus(passed.saturating_sub(elapsed)));
        *latest = (now, passed);
        now
    }

    /// Raises the clock to a moment that another process has seen: no earlier one is returned any
    /// more.
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
