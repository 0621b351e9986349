//! Recent samples: figures every few seconds for an hour, in a ring buffer.
//!
//! A sample costs a few dozen small reads, whatever the size of the store. Figures that need
//! counting item by item are only taken while there are viewers, and only up to a bound. Concurrent
//! viewers share one sample.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tidelock::store::{ItemFilter, ItemQuery, Position, Result, Store, StoreExt};
use tidelock::{Tidelock, Timestamp};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::app_state::{AppState, Setup};
use crate::commits::Commits;

/// The interval of kept samples.
const EVERY: Duration = Duration::from_secs(10);
/// The number of kept samples.
const KEPT: usize = 360;
/// The maximum age of a sample shown to a viewer.
const FRESH: Duration = Duration::from_secs(2);
/// How long after its last request a viewer counts as present.
const LOOKING: Duration = Duration::from_secs(60);
/// The maximum number of items counted.
const COUNTED: usize = 1000;

/// The figures at one point in time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Sample {
    /// When, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    /// The end of the feed.
    #[schema(value_type = u64)]
    pub(crate) head_position: Position,
    /// Events per second since the previous sample; absent in the first sample, and in the first
    /// after a restore or a restart of the server.
    pub(crate) events_per_second: Option<f64>,
    /// Requests per second that this server answered since the previous sample.
    pub(crate) requests_per_second: Option<f64>,
    /// Commits per second by this process since the previous sample; absent if they are not
    /// counted.
    pub(crate) commits_per_second: Option<f64>,
    /// The largest number of positions that a routed reaction has yet to read; absent if no
    /// reaction is routed.
    pub(crate) lag: Option<u64>,
    /// Reactions that no process routes at the moment. They do not lag, they stand still; whether
    /// events wait for them is up to the doctor.
    pub(crate) unserved_reactions: usize,
    /// Leased items, up to a thousand; absent without viewers.
    pub(crate) leased: Option<usize>,
    /// Blocked items, up to a thousand; absent without viewers.
    pub(crate) blocked: Option<usize>,
}

/// The recent samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Requests answered.
    pub(crate) requests: AtomicU64,
    ring: Mutex<VecDeque<Sample>>,
    /// Held while a sample is taken, so that concurrent viewers share it.
    latest: tokio::sync::Mutex<Option<Latest>>,
    looked: Mutex<Option<Instant>>,
    running: AtomicBool,
}

#[derive(Debug)]
struct Latest {
    taken: Instant,
    counts: Counts,
    sample: Sample,
}

/// Counters at one point in time.
#[derive(Debug, Clone, Copy)]
struct Counts {
    requests: u64,
    commits: Option<u64>,
}

impl Samples {
    /// The kept samples, oldest first.
    pub(crate) fn kept(&self) -> Vec<Sample> {
        self.ring.lock().iter().cloned().collect()
    }

    /// A fresh sample, for a viewer.
    pub(crate) async fn look(&self, served: &Setup) -> Result<Sample> {
        *self.looked.lock() = Some(Instant::now());
        self.sample(served, FRESH).await
    }

    /// The newest kept sample.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.ring.lock().back().cloned()
    }

    async fn sample(&self, served: &Setup, fresh: Duration) -> Result<Sample> {
        let mut latest = self.latest.lock().await;
        // Viewers also get the figures that are not counted without them.
        let suffices = |latest: &&Latest| latest.sample.leased.is_some() || !self.is_looked_at();
        if let Some(latest) =
            latest.as_ref().filter(|latest| latest.taken.elapsed() < fresh).filter(suffices)
        {
            return Ok(latest.sample.clone());
        }
        let counts = Counts {
            requests: self.requests.load(Ordering::Relaxed),
            commits: served.commits.as_ref().map(Commits::get),
        };
        let sample = self.take(&served.tidelock, latest.as_ref(), counts).await?;
        *latest = Some(Latest { taken: Instant::now(), counts, sample: sample.clone() });
        Ok(sample)
    }

    async fn take(
        &self,
        tidelock: &Tidelock,
        before: Option<&Latest>,
        counts: Counts,
    ) -> Result<Sample> {
        let store = &**tidelock.store();
        let at = store.now().await?;
        let head_position = store.feed_end().await?;
        let routes = tidelock.reactions().routes().await?;
        let lag = routes.iter().filter_map(|route| route.lag(head_position, at)).max();
        let unserved_reactions = routes.iter().filter(|route| !route.is_routed(at)).count();
        let (leased, blocked) = match self.is_looked_at() {
            true => (
                Some(counted(store, ItemFilter::default().held(true)).await?),
                Some(counted(store, ItemFilter::default().blocked(true)).await?),
            ),
            false => (None, None),
        };
        Ok(Sample {
            at,
            head_position,
            events_per_second: before.and_then(|b| events_per_second(&b.sample, at, head_position)),
            requests_per_second: before.and_then(|b| {
                per_second(counts.requests.saturating_sub(b.counts.requests), b.sample.at, at)
            }),
            commits_per_second: before.and_then(|b| {
                per_second(counts.commits?.saturating_sub(b.counts.commits?), b.sample.at, at)
            }),
            lag,
            unserved_reactions,
            leased,
            blocked,
        })
    }

    fn is_looked_at(&self) -> bool {
        let looked = *self.looked.lock();
        looked.is_some_and(|looked| looked.elapsed() < LOOKING)
    }

    fn keep(&self, sample: Sample) {
        let mut ring = self.ring.lock();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(sample);
    }
}

fn per_second(count: u64, since: Timestamp, at: Timestamp) -> Option<f64> {
    let seconds = at.since(since).as_secs_f64();
    (seconds > 0.0).then(|| count as f64 / seconds)
}

/// `None` if an epoch began since the sample: then most of the positions in between are not events.
fn events_per_second(before: &Sample, at: Timestamp, head: Position) -> Option<f64> {
    // The number of an epoch is the time of its beginning in microseconds, and its positions are
    // above its number.
    let moment = before.at.micros().unsigned_abs();
    let from = before.head_position.get();
    let has_epoch_begun = from < moment && moment <= head.get();
    per_second(head.get().saturating_sub(from), before.at, at).filter(|_| !has_epoch_begun)
}

async fn counted(store: &dyn Store, filter: ItemFilter) -> Result<usize> {
    Ok(store.full_page(ItemQuery::new(filter).limit(COUNTED)).await?.items.len())
}

/// Starts keeping samples, until the server ends. Has no effect if already started.
pub(crate) fn keep(served: &AppState) {
    if served.samples.running.swap(true, Ordering::SeqCst) {
        return;
    }
    let served = served.clone();
    tokio::spawn(async move {
        let closing = served.setup.closing.clone();
        closing.run_until_cancelled(keep_on(&served)).await;
    });
}

async fn keep_on(served: &AppState) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(metrics) = &served.setup.metrics {
            metrics.sum_up();
        }
        match served.samples.sample(&served.setup, FRESH).await {
            Ok(sample) => served.samples.keep(sample),
            Err(error) => tracing::debug!(%error, "no sample was taken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidelock::store::Settlement;

    use super::*;

    fn sample(at: i64, head_position: u64) -> Sample {
        Sample {
            at: Timestamp::from_micros(at).unwrap(),
            head_position: Position::new(head_position).unwrap(),
            events_per_second: None,
            requests_per_second: None,
            commits_per_second: None,
            lag: None,
            unserved_reactions: 0,
            leased: None,
            blocked: None,
        }
    }

    /// HTTP-17. Schedules 77 and 105: the number of an epoch is a moment, and no count of events.
    #[test]
    fn an_epoch_between_two_samples_has_no_event_rate() {
        const SECOND: i64 = 1_000_000;
        let now = 1_800_000_000 * SECOND;
        let rate = |before: Sample, seconds: i64, head: i64| {
            let at = before.at.plus(Duration::from_secs(seconds.unsigned_abs()));
            events_per_second(&before, at, Position::new(head.unsigned_abs()).unwrap())
        };
        let (first, second) = (sample(now, 500), sample(now, (now - SECOND).unsigned_abs() + 500));
        assert_eq!(rate(first.clone(), 10, 600), Some(10.0), "events of the first epoch");
        assert_eq!(rate(second.clone(), 10, now - SECOND + 600), Some(10.0), "and of a later one");
        // An epoch began after the first sample: long before the second, and just before it.
        for began in [now, now + SECOND, now + 9 * SECOND] {
            assert_eq!(rate(first.clone(), 10, began + 1), None, "the second epoch");
            assert_eq!(
                rate(second.clone(), 10, began + 1),
                None,
                "the third, soon after the second"
            );
        }
        assert_eq!(rate(first.clone(), 0, 600), None, "no time has passed");
    }

    /// HTTP-17.
    #[tokio::test]
    async fn counted_items_and_kept_samples_are_bounded() {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        let queue = tidelock.queue("mail");
        for key in 0..=COUNTED {
            queue.enqueue(key.to_string()).await.unwrap();
        }
        for _ in 0..2 {
            let taken = queue.lease("walt").limit(COUNTED).await.unwrap();
            let blocks =
                taken.iter().map(|taken| Settlement::block(taken.lease.token(), "no stamps"));
            queue.settle(blocks.collect()).await.unwrap();
        }
        let samples = Samples::default();
        let sample = samples.look(&Setup::over(tidelock)).await.unwrap();
        assert_eq!((sample.leased, sample.blocked), (Some(0), Some(COUNTED)));
        (0..=KEPT).for_each(|_| samples.keep(sample.clone()));
        assert_eq!(samples.kept().len(), KEPT);
    }
}
