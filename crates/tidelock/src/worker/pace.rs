//! Pace: a limit of how many items begin in a span of time, over all processes.
//!
//! The store judges each draw in its commit, as that of any rate limit (GCRA). A worker leases
//! items and then draws for them; what is not granted is given back. From then on it draws first,
//! and leases only as many items as were granted, until the queue is drained: items that have to
//! wait are not touched, and between two draws the store is not asked.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, Conflict, Rate, RecordKey, RecordWrite, Result, Store, StoreError, Timestamp,
    ViolationReason,
};
use tokio::time::Instant;

use super::keys;
use crate::bounds;

/// A rate over all processes, for the options of a queue.
#[derive(Debug, Clone)]
pub(crate) struct GlobalRate {
    record: RecordKey,
    /// How long it takes until one more item may begin.
    unit: Duration,
    burst: u32,
}

impl GlobalRate {
    /// A rate of this name: so many items in this time, and so many at once after a pause.
    pub(crate) fn new(name: &str, limit: u32, every: Duration, burst: u32) -> Result<Self> {
        bounds::keeps("the time of a rate", every)?;
        let time = u64::try_from(every.as_micros()).unwrap_or(u64::MAX);
        if limit == 0 || burst == 0 || time < u64::from(limit) {
            return Err(StoreError::limit(format!(
                "a rate of {limit} in {every:?} with a burst of {burst}; use 1 or more, and at most one in a microsecond"
            )));
        }
        let record =
            keys::pace(name).map_err(|e| e.about("the name of a queue with a global rate"))?;
        let unit = Duration::from_micros(time.div_ceil(u64::from(limit)));
        bounds::keeps("the burst of a rate, times its unit,", unit.saturating_mul(burst))?;
        Ok(Self { record, unit, burst })
    }

    fn draw(&self, units: u32) -> RecordWrite {
        let (cost, burst) = (self.unit * units, self.unit * self.burst);
        RecordWrite::rate(&self.record, Rate { cost, burst })
    }

    /// When so many units could be drawn, by a refusal.
    fn possible_at(&self, conflict: &Conflict) -> Option<Timestamp> {
        conflict.violations.iter().find_map(|violation| match &violation.reason {
            ViolationReason::Rate { key, possible_at, .. } if *key == self.record => {
                Some(*possible_at)
            }
            _ => None,
        })
    }
}

/// The pace of one queue in this worker.
#[derive(Debug)]
pub(super) struct Pace {
    store: Arc<dyn Store>,
    rate: GlobalRate,
    /// Whether more is due than may begin: then draws come first.
    is_saturated: bool,
    /// Before this moment no draw is granted, once one was refused.
    opens_at: Option<Instant>,
}

impl Pace {
    pub(super) fn new(store: &Arc<dyn Store>, rate: &GlobalRate) -> Self {
        Self { store: store.clone(), rate: rate.clone(), is_saturated: false, opens_at: None }
    }

    /// How long nothing may begin, if that is known.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        let left = self.opens_at?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn is_saturated(&self) -> bool {
        self.is_saturated
    }

    /// How many items may be leased now, at most this many.
    pub(super) async fn allow(&mut self, most: usize) -> Result<usize> {
        if self.closed_for().is_some() {
            return Ok(0);
        }
        match self.is_saturated {
            true => self.draw(most).await,
            false => Ok(most),
        }
    }

    /// Something else holds the items up: the next draw comes after the lease, so that no further
    /// draw is wasted.
    pub(super) fn held_up(&mut self) {
        self.is_saturated = false;
    }

    /// How many of the items that were leased may begin, of as many as were allowed.
    pub(super) async fn grant(&mut self, leased: usize, allowed: usize) -> Result<usize> {
        if self.is_saturated {
            // What was drawn for items that are not there is forfeited.
            self.is_saturated = leased >= allowed;
            return Ok(leased);
        }
        let granted = self.draw(leased).await?;
        self.is_saturated = granted < leased;
        Ok(granted)
    }

    /// Draws for as many items as possible, at most this many.
    async fn draw(&mut self, most: usize) -> Result<usize> {
        let mut units = self.expected(u32::try_from(most).unwrap_or(u32::MAX));
        while units > 0 {
            let commit = Commit::new().write(self.rate.draw(units)).with_retry_id();
            let Err(conflict) = self.store.commit(commit).await?.committed() else {
                self.drawn(units);
                break;
            };
            let possible_at = self.rate.possible_at(&conflict);
            let Some(possible_at) = possible_at else {
                return Err(StoreError::invalid(format!("a draw of a rate: {conflict}")));
            };
            let late = possible_at.since(self.store.now().await?);
            let missing = late.as_nanos().div_ceil(self.rate.unit.as_nanos()).max(1);
            let less = units.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX));
            if less == 0 {
                let until_one = late.saturating_sub(self.rate.unit * (units - 1));
                self.opens_at = Some(Instant::now() + until_one);
            }
            units = less;
        }
        Ok(units as usize)
    }

    /// How many units can be there, of at most so many, by what was last known.
    fn expected(&self, most: u32) -> u32 {
        let most = most.min(self.rate.burst);
        let Some(opens_at) = self.opens_at else { return most };
        let since = Instant::now().saturating_duration_since(opens_at);
        let replenished = since.as_nanos() / self.rate.unit.as_nanos();
        most.min(u32::try_from(replenished).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// After a draw, the next one is granted no sooner than what was drawn is replenished.
    fn drawn(&mut self, units: u32) {
        let Some(opens_at) = self.opens_at else { return };
        let full = Instant::now().checked_sub(self.rate.unit * (self.rate.burst - 1));
        let from = full.map_or(opens_at, |full| full.max(opens_at));
        self.opens_at = Some(from + self.rate.unit * units);
    }
}
