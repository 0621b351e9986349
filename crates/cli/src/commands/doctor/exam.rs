//! The examination: the store, its clock, and how far to look.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock::reactions::Followed;
use tidelock::runs::run_of;
use tidelock::{Item, ItemFilter, ItemQuery, ItemRef, Store, Timestamp, limits};

use super::finding::{Finding, Findings, Kind, Severity};
use super::unserved::Unserved;
use super::{blocked, expired, expiring, expiry_loop, retrying, unrouted};
use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::shell::quoted;

/// Looks at one item, and says what is the matter with it.
type Look = fn(&Item, &Exam) -> Option<Finding>;

/// What can be the matter with one item; the first that is counts.
const LOOKS: [Look; 6] =
    [unrouted::look, blocked::look, expiry_loop::look, expired::look, expiring::look, retrying::look];

pub(super) struct Exam {
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Timestamp,
    /// How long something may wait before it counts as not moving.
    pub(super) patience: Duration,
    scan: usize,
}

impl Exam {
    pub(super) async fn begin(store: &Arc<dyn Store>, args: &DoctorArgs) -> Result<Self, Failure> {
        let now = store.now().await?;
        Ok(Self { store: store.clone(), now, patience: args.patience, scan: args.scan })
    }

    /// How long ago that was; nothing if not so long that patience is over.
    pub(super) fn is_long_ago(&self, then: Timestamp) -> bool {
        then <= self.now && self.now.since(then) >= self.patience
    }

    /// Looks at the work items: first at those that are blocked or held, which are few and found at once, then at the rest.
    pub(super) async fn items(
        &self,
        routes: &BTreeSet<ItemRef>,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        let mut unserved = Unserved::default();
        let all = ItemFilter::default;
        for filter in [all().blocked(true), all().blocked(false).held(true), all().blocked(false).held(false)]
        {
            self.page_through(filter, routes, findings, &mut unserved).await?;
        }
        unserved.tell(self, findings);
        Ok(())
    }

    async fn page_through(
        &self,
        filter: ItemFilter,
        routes: &BTreeSet<ItemRef>,
        findings: &mut Findings,
        unserved: &mut Unserved,
    ) -> Result<(), Failure> {
        let (mut query, mut looked) = (ItemQuery::new(filter).limit(limits::PAGE_SIZE), 0);
        loop {
            let page = self.store.items(query.clone()).await?;
            looked += page.items.len();
            for item in page.items.iter().filter(|item| !routes.contains(&item.item)) {
                match LOOKS.iter().find_map(|look| look(item, self)) {
                    Some(finding) => findings.add(finding),
                    None => unserved.count(item, self),
                }
            }
            match page.next {
                Some(_) if looked >= self.scan => {
                    findings.add(unfinished(looked));
                    return Ok(());
                }
                Some(next) => query = query.after(next),
                None => return Ok(()),
            }
        }
    }
}

fn unfinished(looked: usize) -> Finding {
    Finding {
        kind: Kind::Unfinished,
        severity: Severity::Notice,
        thing: "work items".to_owned(),
        since: None,
        what: format!("there are more than the {looked} that were looked at"),
        mend: Some("tidelock doctor --scan COUNT, to look at more".to_owned()),
    }
}

/// An item by the name that people know it under.
pub(super) fn name(item: &Item) -> String {
    match (Followed::of(item.clone()), run_of(&item.item)) {
        (Some(target), _) => format!("reaction {:?}, target {:?}", target.reaction, target.target),
        (None, Some(run)) => format!("run {:?}", run.as_str()),
        (None, None) => item.item.to_string(),
    }
}

/// The arguments that mean this item and no other.
pub(super) fn meaning(item: &Item) -> String {
    match Followed::of(item.clone()) {
        Some(target) => {
            format!("--reaction {} --target {}", quoted(&target.reaction), quoted(&target.target))
        }
        None => {
            format!("--queue {} --key {}", quoted(item.item.queue.as_str()), quoted(item.item.key.as_str()))
        }
    }
}

/// The command that lets a blocked item go on.
pub(super) fn unblocking(item: &Item) -> String {
    match run_of(&item.item) {
        Some(run) => format!("tidelock resume {}", quoted(run.as_str())),
        None => format!("tidelock unblock {}", meaning(item)),
    }
}
