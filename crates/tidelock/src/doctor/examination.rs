//! One examination: the store, the time it started, and the thresholds.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Result, Store, Timestamp};

use super::finding::{Finding, FindingKind};
use super::remedy::RemedyAction;
use super::subject::Subject;
use crate::worker::TIMEOUT;

/// Thresholds and scan limits of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// How long an item may wait before it counts as stuck.
    pub stuck_after: Duration,
    /// How long an item may be held without progress before it counts as hung.
    ///
    /// The default is twice the default timeout of a handler. Increase it if handlers have longer
    /// timeouts.
    pub hung_after: Duration,
    /// From which share on recent claims that timed out or failed are reported, in percent.
    pub failing_claims: u8,
    /// How long the writes to records are watched, to find hot ones; zero does without.
    pub sample: Duration,
    /// How many findings of each kind are kept. The rest are counted.
    pub show: usize,
    /// How many work items are read at most, each for the blocked, the held and the remaining ones.
    pub scan: usize,
    /// How many open runs, newest first, are read one by one.
    pub runs: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            stuck_after: Duration::from_secs(30),
            hung_after: 2 * TIMEOUT,
            failing_claims: 10,
            sample: Duration::from_millis(250),
            show: 10,
            scan: 100_000,
            runs: 200,
        }
    }
}

pub(super) struct Examination {
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Timestamp,
    pub(super) thresholds: Thresholds,
}

impl Examination {
    pub(super) async fn begin(store: &Arc<dyn Store>, thresholds: Thresholds) -> Result<Self> {
        Ok(Self { store: store.clone(), now: store.now().await?, thresholds })
    }

    /// Whether a wait since then counts as stuck.
    pub(super) fn is_stuck(&self, since: Timestamp) -> bool {
        since <= self.now && self.now.since(since) >= self.thresholds.stuck_after
    }

    /// Whether an item held since then, without progress, counts as hung.
    pub(super) fn is_hung(&self, since: Timestamp) -> bool {
        since <= self.now && self.now.since(since) >= self.thresholds.hung_after
    }

    /// The time `long` before now.
    #[cfg(feature = "postgres")]
    pub(super) fn ago(&self, long: Duration) -> Option<Timestamp> {
        let long = i64::try_from(long.as_micros()).ok()?;
        Timestamp::from_micros(self.now.micros().checked_sub(long)?).ok()
    }
}

/// Reports that the scan limit was reached.
pub(super) fn unfinished(of: Subject, scanned: usize) -> Finding {
    let what = format!("there are more than the {scanned} that were checked");
    Finding::warning(FindingKind::Unfinished, of, what)
        .advice("check more of them")
        .action(RemedyAction::RaiseScanLimit { scan: scanned.saturating_mul(10) })
}
