//! Conversions between the contract's types and those of the standard library and of date crates.
//!
//! A [`Timestamp`] has microseconds and lies between the years 1970 and 9999. A conversion to it
//! drops what is finer than a microsecond, and fails outside that range. A conversion from it never
//! fails.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};
use crate::ids::{CommitId, EventId};

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_micros(timestamp.micros().unsigned_abs())
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = StoreError;

    fn try_from(time: SystemTime) -> Result<Self> {
        let since = time.duration_since(UNIX_EPOCH).map_err(|e| {
            StoreError::invalid("time before the year 1970 is no timestamp").caused_by(e)
        })?;
        Self::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for jiff::Timestamp {
    fn from(timestamp: Timestamp) -> Self {
        Self::from_microsecond(timestamp.micros()).expect("a timestamp ends with the year 9999")
    }
}

impl TryFrom<jiff::Timestamp> for Timestamp {
    type Error = StoreError;

    fn try_from(timestamp: jiff::Timestamp) -> Result<Self> {
        Self::from_micros(timestamp.as_microsecond())
    }
}

#[cfg(feature = "chrono")]
impl From<Timestamp> for chrono::DateTime<chrono::Utc> {
    fn from(timestamp: Timestamp) -> Self {
        Self::from_timestamp_micros(timestamp.micros())
            .expect("a timestamp ends with the year 9999")
    }
}

#[cfg(feature = "chrono")]
impl<Z: chrono::TimeZone> TryFrom<chrono::DateTime<Z>> for Timestamp {
    type Error = StoreError;

    fn try_from(time: chrono::DateTime<Z>) -> Result<Self> {
        Self::from_micros(time.timestamp_micros())
    }
}

#[cfg(feature = "time")]
impl From<Timestamp> for time::OffsetDateTime {
    fn from(timestamp: Timestamp) -> Self {
        Self::UNIX_EPOCH + time::Duration::microseconds(timestamp.micros())
    }
}

#[cfg(feature = "time")]
impl TryFrom<time::OffsetDateTime> for Timestamp {
    type Error = StoreError;

    fn try_from(time: time::OffsetDateTime) -> Result<Self> {
        let micros = time.unix_timestamp_nanos().div_euclid(1_000);
        Self::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for When {
    fn from(moment: Timestamp) -> Self {
        Self::At(moment)
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::In(delay)
    }
}

macro_rules! uuid {
    ($($id:ident),*) => {$(
        impl From<Uuid> for $id {
            fn from(uuid: Uuid) -> Self {
                Self::from_bytes(uuid.into_bytes())
            }
        }

        impl From<$id> for Uuid {
            fn from(id: $id) -> Self {
                Self::from_bytes(*id.as_bytes())
            }
        }
    )*};
}

uuid!(EventId, CommitId);

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Timestamp {
        "2026-01-31T12:00:00.000001Z".parse().unwrap()
    }

    #[test]
    fn a_timestamp_survives_the_way_to_another_type_and_back() {
        let (first, last) = (Timestamp::from_micros(0), "9999-12-30T21:59:59.999999Z".parse());
        for moment in [first.unwrap(), moment(), last.unwrap()] {
            assert_eq!(Timestamp::try_from(SystemTime::from(moment)).unwrap(), moment);
            assert_eq!(Timestamp::try_from(jiff::Timestamp::from(moment)).unwrap(), moment);
            #[cfg(feature = "chrono")]
            assert_eq!(Timestamp::try_from(chrono::DateTime::from(moment)).unwrap(), moment);
            #[cfg(feature = "time")]
            assert_eq!(Timestamp::try_from(time::OffsetDateTime::from(moment)).unwrap(), moment);
        }
    }

    #[test]
    fn nanoseconds_are_dropped_and_other_centuries_refused() {
        let finer = SystemTime::from(moment()) + Duration::from_nanos(999);
        assert_eq!(Timestamp::try_from(finer).unwrap(), moment());
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        assert!(Timestamp::try_from(before).is_err(), "not rounded up to 1970");
        let before = jiff::Timestamp::from_microsecond(-1).unwrap();
        assert!(Timestamp::try_from(before).is_err());
        #[cfg(feature = "chrono")]
        assert!(Timestamp::try_from(chrono::DateTime::<chrono::Utc>::MAX_UTC).is_err());
        #[cfg(feature = "time")]
        assert!(
            Timestamp::try_from(time::OffsetDateTime::UNIX_EPOCH - time::Duration::NANOSECOND)
                .is_err()
        );
    }

    #[test]
    fn ids_convert_to_uuids_and_back() {
        let id = EventId::fresh();
        assert_eq!(Uuid::from(id).to_string(), id.to_string());
        assert_eq!(EventId::from(Uuid::from(id)), id);
    }
}
