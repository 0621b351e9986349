//! Leases of the in-memory store: leasing, renewing, listing and adjusting work items.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::time::Duration;

use super::state::{ReadyLanes, State};
use crate::clock::Timestamp;
use crate::leases::{
    Adjusted, Adjustment, Item, ItemFilter, ItemPage, ItemQuery, ItemRef, LeaseRequest, LeaseToken,
    Leased, Renewal,
};
use crate::limits;
use crate::names::ItemKey;
use crate::numbers::Priority;
use crate::plan::{Candidate, FairShare};
use crate::signal::Topic;

impl State {
    pub(super) fn lease(
        &mut self,
        request: &LeaseRequest,
        turns: &FairShare,
        now: Timestamp,
    ) -> Leased {
        let chosen = turns.choose(request, self.candidates(request, now));
        let mut leases = Vec::with_capacity(chosen.len());
        for key in chosen {
            let item = ItemRef { queue: request.queue.clone(), key };
            let Some(mut item) = self.find_item(&item).cloned() else { continue };
            leases.push(item.grant(&request.worker, request.duration, now, self.floors.fence));
            self.put_item(item);
        }
        Leased { at: now, leases, next_due: self.next_due(request) }
    }

    pub(super) fn renew(
        &mut self,
        token: &LeaseToken,
        duration: Duration,
        now: Timestamp,
    ) -> Renewal {
        let Some(mut item) = self.find_item(&token.item).cloned() else {
            return Renewal::Lost(None);
        };
        match item.renew(token, duration, now) {
            Some(deadline) => {
                self.put_item(item);
                Renewal::Renewed(deadline)
            }
            None => Renewal::Lost(Some(Box::new(item))),
        }
    }

    pub(super) fn list(&self, query: &ItemQuery) -> ItemPage {
        if let Some((queue, key)) = query.filter.one() {
            let name = ItemRef::parse(queue, key).ok();
            return query.answer(name.and_then(|name| self.find_item(&name)).cloned());
        }
        let mut page = ItemPage { items: Vec::new(), next: None };
        let mut last: Option<&ItemRef> = None;
        for (seen, item) in self.items_after(&query.filter, query.after.as_ref()).enumerate() {
            if page.items.len() == query.limit || seen == limits::FEED_SCAN {
                page.next = last.cloned();
                break;
            }
            page.items.extend(query.filter.matches(item).then(|| item.clone()));
            last = Some(&item.item);
        }
        page
    }

    pub(super) fn adjust(
        &mut self,
        filter: &ItemFilter,
        adjustment: &Adjustment,
        now: Timestamp,
    ) -> (Adjusted, HashSet<Topic>) {
        let mut adjusted = Adjusted::default();
        let mut topics = HashSet::new();
        let meant: Vec<Item> =
            self.items_after(filter, None).filter(|item| filter.matches(item)).cloned().collect();
        for mut item in meant {
            adjusted.matched += 1;
            if adjustment.apply(&mut item, now) {
                adjusted.changed += 1;
                topics.insert(Topic::Queue(item.item.queue.clone()));
                self.put_item(item);
            }
        }
        (adjusted, topics)
    }

    /// The items after that one, by queue and key, that may pass the filter.
    fn items_after<'a>(
        &'a self,
        filter: &'a ItemFilter,
        after: Option<&'a ItemRef>,
    ) -> impl Iterator<Item = &'a Item> {
        let prefix = filter.queue.prefix();
        let from = after
            .map(|item| item.queue.as_str())
            .filter(|queue| *queue >= prefix)
            .unwrap_or(prefix);
        let queues = self.items.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        queues.take_while(move |(queue, _)| queue.as_str().starts_with(prefix)).flat_map(
            move |(queue, items)| {
                let after = after.filter(|item| item.queue == *queue).map(|item| &item.key);
                items
                    .range::<ItemKey, _>((
                        after.map_or(Bound::Unbounded, Bound::Excluded),
                        Bound::Unbounded,
                    ))
                    .map(|(_, item)| item)
            },
        )
    }

    /// For each lane and priority, the items that have been due longest, as many as the request
    /// could take.
    fn candidates(&self, request: &LeaseRequest, now: Timestamp) -> Vec<Candidate> {
        let Some(lanes) = self.ready.get(&request.queue) else { return Vec::new() };
        let mut candidates = Vec::new();
        for (priority, times) in wanted(lanes, request) {
            let due = times.iter().take(request.limit).take_while(|(moment, _)| *moment <= now);
            candidates.extend(due.map(|(moment, key)| Candidate {
                ready_at: *moment,
                priority,
                key: key.clone(),
            }));
        }
        candidates
    }

    fn next_due(&self, request: &LeaseRequest) -> Option<Timestamp> {
        let lanes = self.ready.get(&request.queue)?;
        wanted(lanes, request)
            .filter_map(|(_, times)| times.first())
            .map(|(moment, _)| *moment)
            .min()
    }
}

fn wanted<'a>(
    lanes: &'a ReadyLanes,
    request: &'a LeaseRequest,
) -> impl Iterator<Item = (Priority, &'a BTreeSet<(Timestamp, ItemKey)>)> {
    lanes
        .iter()
        .filter(|((lane, _), _)| request.lane.as_ref().is_none_or(|wanted| wanted == lane))
        .map(|((_, priority), times)| (priority.0, times))
}
