//! `tidelock leases`: lists the work items of all queues.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::queues::ItemState;
use tidelock::store::{Item, ItemFilter, ItemQuery, ItemRef, StoreExt};

use super::{Cx, paged};
use crate::args::LeasesArgs;
use crate::failure::Result;
use crate::output::{TableRow, ahead, cut, quoted};

/// The length at which an error is truncated, unless shown in full.
const ERROR: usize = 60;

#[derive(Debug, Serialize)]
struct Row {
    state: ItemState,
    #[serde(flatten)]
    item: Item,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    full: bool,
}

pub(crate) async fn run(args: LeasesArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let first = after(&args.after)?;
    let read = async |after: Option<ItemRef>, limit| {
        let mut query = ItemQuery::new(filter(&args)).limit(limit);
        query.after = after.or_else(|| first.clone());
        let page = store.full_page(query).await?;
        let rows = page.items.into_iter().filter_map(|item| Row::of(item, now, &args)).collect();
        Ok((rows, page.next))
    };
    let none = format!("no such work item in {}", store_url.shown());
    let more = |next: ItemRef| {
        let (queue, key) = (quoted(next.queue.as_str()), quoted(next.key.as_str()));
        format!("there may be more: --after {queue} {key}, or --all")
    };
    paged::list(args.paging, out, read, &none, more).await
}

/// The part of the filter that the store can evaluate.
fn filter(args: &LeasesArgs) -> ItemFilter {
    ItemFilter {
        queue: args.queue.clone().unwrap_or_default(),
        key: args.key.clone().unwrap_or_default(),
        lane: args.lane.clone(),
        blocked: args.wants_only(&[ItemState::Blocked]).then_some(true),
        held: args.wants_only(&[ItemState::Held, ItemState::Expired]).then_some(true),
    }
}

fn after(typed: &[String]) -> Result<Option<ItemRef>> {
    match typed {
        [queue, key] => Ok(Some(ItemRef::parse(queue, key)?)),
        _ => Ok(None),
    }
}

impl Row {
    fn of(item: Item, now: Timestamp, args: &LeasesArgs) -> Option<Self> {
        let state = ItemState::of(&item, now);
        args.wants(state).then_some(Self { state, item, now, full: args.full })
    }

    /// The time that matters in this state.
    fn when(&self) -> Option<Timestamp> {
        match self.state {
            ItemState::Held | ItemState::Expired => {
                self.item.holder.as_ref().map(|holder| holder.deadline)
            }
            ItemState::Waiting => self.item.hold,
            ItemState::Blocked | ItemState::Due | ItemState::Scheduled | ItemState::Idle => {
                self.item.due
            }
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] = &[
        "queue", "key", "state", "when", "at", "mark", "failures", "expiries", "priority", "lane",
        "holder", "error",
    ];

    fn cells(&self) -> Vec<String> {
        let item = &self.item;
        let error = item.error.as_deref().unwrap_or_default();
        vec![
            item.item.queue.to_string(),
            item.item.key.to_string(),
            self.state.as_str().to_owned(),
            self.when().map_or_else(String::new, |when| ahead(when, self.now)),
            item.at.to_string(),
            item.mark.to_string(),
            item.failures.to_string(),
            item.expiries.to_string(),
            item.priority.to_string(),
            item.lane.to_string(),
            item.holder.as_ref().map_or_else(String::new, |holder| holder.worker.to_string()),
            if self.full { error.to_owned() } else { cut(error, ERROR).into_owned() },
        ]
    }
}
