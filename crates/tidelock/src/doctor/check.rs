//! One examination: the store, the time it started, and the scan limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Item, ItemFilter, ItemQuery, ItemRef, Result, Store, StoreExt, Timestamp};

use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use super::unserved::Unserved;
use super::{
    Thresholds, blocked, expired, expiring, expiry_loop, hung, parked, retrying, unrouted,
};
use crate::closing::is_desk;

/// Checks one item and returns its finding, if any.
type ItemCheck = fn(&Item, &Check) -> Option<Finding>;

/// The checks of one item, in order. The first finding is kept.
const ITEM_CHECKS: [ItemCheck; 7] = [
    unrouted::check,
    parked::check,
    blocked::check,
    expiry_loop::check,
    expired::check,
    expiring::check,
    retrying::check,
];

pub(super) struct Check {
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Timestamp,
    /// How long an item may wait before it counts as stuck.
    pub(super) patience: Duration,
    /// How long an item may be held without progress.
    hung: Duration,
    pub(super) scan: usize,
    /// The number of open runs to read.
    pub(super) runs: usize,
}

impl Check {
    pub(super) async fn begin(store: &Arc<dyn Store>, bounds: &Thresholds) -> Result<Self> {
        let now = store.now().await?;
        Ok(Self {
            store: store.clone(),
            now,
            patience: bounds.patience,
            hung: bounds.hung,
            scan: bounds.scan,
            runs: bounds.runs,
        })
    }

    /// Whether `then` lies further back than the patience.
    pub(super) fn is_long_ago(&self, then: Timestamp) -> bool {
        then <= self.now && self.now.since(then) >= self.patience
    }

    /// Whether an item held since then, without progress, counts as hung.
    pub(super) fn is_hung(&self, since: Timestamp) -> bool {
        since <= self.now && self.now.since(since) >= self.hung
    }

    /// The time `long` before now.
    #[cfg(feature = "postgres")]
    pub(super) fn ago(&self, long: Duration) -> Option<Timestamp> {
        let long = i64::try_from(long.as_micros()).ok()?;
        Timestamp::from_micros(self.now.micros().checked_sub(long)?).ok()
    }

    /// Checks the work items: blocked and held ones first, because they are few and indexed, then
    /// the rest.
    pub(super) async fn items(
        &self,
        routes: &BTreeSet<ItemRef>,
        findings: &mut Findings,
    ) -> Result<()> {
        let mut unserved = Unserved::default();
        let all = ItemFilter::default;
        for filter in
            [all().blocked(true), all().blocked(false).held(true), all().blocked(false).held(false)]
        {
            self.check_items(filter, routes, findings, &mut unserved).await?;
        }
        unserved.report(self, findings);
        Ok(())
    }

    async fn check_items(
        &self,
        filter: ItemFilter,
        routes: &BTreeSet<ItemRef>,
        findings: &mut Findings,
        unserved: &mut Unserved,
    ) -> Result<()> {
        let (mut items, mut scanned) = (self.store.rows(ItemQuery::new(filter)), 0);
        while let Some(item) = items.next().await? {
            if scanned == self.scan {
                findings.add(unfinished(Subject::WorkItems, scanned));
                return Ok(());
            }
            scanned += 1;
            // Routes and closings have their own checks. An archive may take any time.
            if routes.contains(&item.item) || is_desk(&item.item.queue) {
                continue;
            }
            let finding = match ITEM_CHECKS.iter().find_map(|check| check(&item, self)) {
                Some(finding) => Some(finding),
                None => hung::check(&item, self).await?,
            };
            match finding {
                Some(finding) => findings.add(finding),
                None => unserved.count(&item, self),
            }
        }
        Ok(())
    }
}

/// Reports that the scan limit was reached.
pub(super) fn unfinished(of: Subject, scanned: usize) -> Finding {
    Finding {
        kind: FindingKind::Unfinished,
        severity: Severity::Warning,
        subject: of,
        since: None,
        what: format!("there are more than the {scanned} that were checked"),
        remedy: Remedy::advice("check more of them")
            .then(RemedyAction::RaiseScanLimit { scan: scanned.saturating_mul(10) }),
    }
}
