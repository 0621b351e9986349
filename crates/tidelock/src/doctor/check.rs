//! The examination: the store, its clock, and how far to look.

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

/// Looks at one item, and says what is the matter with it.
type Look = fn(&Item, &Check) -> Option<Finding>;

/// What can be the matter with one item; the first that is counts.
const LOOKS: [Look; 7] = [
    unrouted::look,
    parked::look,
    blocked::look,
    expiry_loop::look,
    expired::look,
    expiring::look,
    retrying::look,
];

pub(super) struct Check {
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Timestamp,
    /// How long something may wait before it counts as not moving.
    pub(super) patience: Duration,
    /// How long something may be held without progress.
    hung: Duration,
    pub(super) scan: usize,
    /// How many open runs to look at.
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

    /// How long ago that was; nothing if not so long that patience is over.
    pub(super) fn is_long_ago(&self, then: Timestamp) -> bool {
        then <= self.now && self.now.since(then) >= self.patience
    }

    /// Whether something that was held since then, without progress, counts as hung.
    pub(super) fn is_overlong(&self, since: Timestamp) -> bool {
        since <= self.now && self.now.since(since) >= self.hung
    }

    /// The moment that lies so far back.
    #[cfg(feature = "postgres")]
    pub(super) fn ago(&self, long: Duration) -> Option<Timestamp> {
        let long = i64::try_from(long.as_micros()).ok()?;
        Timestamp::from_micros(self.now.micros().checked_sub(long)?).ok()
    }

    /// Looks at the work items: first at those that are blocked or held, which are few and found at
    /// once, then at the rest.
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
            self.look_through(filter, routes, findings, &mut unserved).await?;
        }
        unserved.tell(self, findings);
        Ok(())
    }

    async fn look_through(
        &self,
        filter: ItemFilter,
        routes: &BTreeSet<ItemRef>,
        findings: &mut Findings,
        unserved: &mut Unserved,
    ) -> Result<()> {
        let (mut items, mut looked) = (self.store.rows(ItemQuery::new(filter)), 0);
        while let Some(item) = items.next().await? {
            if looked == self.scan {
                findings.add(unfinished(Subject::WorkItems, looked));
                return Ok(());
            }
            looked += 1;
            // Both are looked at elsewhere, by what they are about. How long an archive takes is up
            // to it.
            if routes.contains(&item.item) || is_desk(&item.item.queue) {
                continue;
            }
            let finding = match LOOKS.iter().find_map(|look| look(&item, self)) {
                Some(finding) => Some(finding),
                None => hung::look(&item, self).await?,
            };
            match finding {
                Some(finding) => findings.add(finding),
                None => unserved.count(&item, self),
            }
        }
        Ok(())
    }
}

/// That there is more than was looked at.
pub(super) fn unfinished(of: Subject, looked: usize) -> Finding {
    Finding {
        kind: FindingKind::Unfinished,
        severity: Severity::Warning,
        subject: of,
        since: None,
        what: format!("there are more than the {looked} that were looked at"),
        remedy: Remedy::advice("look at more")
            .then(RemedyAction::LookFurther { scan: looked.saturating_mul(10) }),
    }
}
