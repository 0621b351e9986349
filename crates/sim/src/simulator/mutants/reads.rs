//! Mutants that spoil reads and leases.

use std::time::Duration;

use tidelock::store::{
    Adjusted, Adjustment, Commit, CommitOutcome, Direction, FeedPage, FeedQuery, FeedStart,
    HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    Position, RecordKey, RecordPage, RecordQuery, Renewal, Result, Slot, Store, StoreExt,
    StoreLayer, StoredEvent, StreamPage, StreamQuery, async_trait,
};

use super::{Mutant, Mutated};

/// Leases that outlast every simulation.
const DAYS: Duration = Duration::from_secs(6 * 24 * 3600);

/// Positions that a store without restores never leaves out.
const GAP: u64 = 10_000;

#[async_trait]
impl StoreLayer for Mutated {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.commit_mutated(commit).await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        let forward = query.direction == Direction::Forward;
        let mut page = self.store.read_stream(query).await?;
        if forward && page.events.len() > 1 && self.now_and_then(Mutant::HidesStreamEvents, 6) {
            page.events.pop();
        }
        Ok(page)
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        let FeedStart::After(after) = query.from else { return self.store.read_feed(query).await };
        let mut page = self.store.read_feed(query).await?;
        let count = page.events.len();
        if count > 0 && self.now_and_then(Mutant::SkipsFeedEvents, 10) {
            page.events.pop();
        }
        if count > 0
            && self.now_and_then(Mutant::RepeatsFeedEvents, 10)
            && let Some(last) = page.events.last()
        {
            page.next = Position::new(last.position.get() - 1)?;
            page.at_end = false;
        }
        if self.is(Mutant::StopsAtGaps) {
            let mut last = after.get();
            let is_gap = |event: &StoredEvent| {
                let before = std::mem::replace(&mut last, event.position.get());
                event.position.get() > before + GAP
            };
            if let Some(gap) = page.events.iter().position(is_gap) {
                page.events.truncate(gap);
                page.next = page.events.last().map_or(after, |event| event.position);
                page.at_end = true;
            }
        }
        if count > 1 && self.now_and_then(Mutant::ReordersFeed, 10) {
            page.events.swap(count - 1, count - 2);
        }
        Ok(page)
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        let mut page = self.store.heads(query).await?;
        if self.ends(page.heads.is_empty()) {
            page.next = None;
        }
        Ok(page)
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        let mut slots = self.store.get(keys).await?;
        if self.is(Mutant::ReadsStale) {
            for (key, slot) in keys.iter().zip(&mut slots) {
                let stale = self.now_and_then(Mutant::ReadsStale, 6);
                let mut state = self.lock();
                let first = state.read.entry(key.to_string()).or_insert_with(|| slot.clone());
                match stale {
                    true => *slot = first.clone(),
                    false => *first = slot.clone(),
                }
            }
        }
        if self.is(Mutant::HidesPauses)
            && let Some(at) = keys.iter().position(|key| key.as_str() == "~paused")
        {
            slots[at] = Slot::Absent;
        }
        Ok(slots)
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        let mut page = self.store.scan(query).await?;
        if self.ends(page.records.is_empty()) {
            page.next = None;
        }
        Ok(page)
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        let mut page = self.store.items(query).await?;
        if self.ends(page.items.is_empty()) {
            page.next = None;
        }
        Ok(page)
    }

    async fn lease(&self, mut request: LeaseRequest) -> Result<Leased> {
        if self.now_and_then(Mutant::GrantsTwice, 6)
            && let Some(leased) = self.lock().granted.take()
            && leased.leases.iter().all(|lease| lease.item.queue == request.queue)
        {
            return Ok(leased);
        }
        if self.is(Mutant::LeasesForDays) {
            request.duration = DAYS;
        }
        let mut leased = self.store.lease(request).await?;
        if !leased.leases.is_empty() {
            self.lock().granted = Some(leased.clone());
        }
        if self.is(Mutant::AbandonsExpired) {
            leased.leases.retain(|lease| lease.expiries == 0);
        }
        Ok(leased)
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        let mut leases = leases.to_vec();
        if self.is(Mutant::RenewsForStaleHolders) {
            for lease in &mut leases {
                let found = self.store.item(&lease.item).await?;
                lease.fence = found.and_then(|item| item.fence).unwrap_or(lease.fence);
            }
        }
        let duration = if self.is(Mutant::LeasesForDays) { DAYS } else { duration };
        let mut renewals = self.store.renew(&leases, duration).await?;
        if self.is(Mutant::HidesLoss) {
            let until = self.store.now().await?.plus(duration);
            let lost = renewals.iter_mut().filter(|renewal| matches!(renewal, Renewal::Lost(_)));
            lost.for_each(|renewal| *renewal = Renewal::Renewed(until));
        }
        Ok(renewals)
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        if self.is(Mutant::IgnoresOperators) {
            return Ok(Adjusted::default());
        }
        self.store.adjust(filter, adjustment).await
    }
}

impl Mutated {
    /// Whether a page is said to be the last.
    fn ends(&self, is_empty: bool) -> bool {
        self.is(Mutant::DropsNext) || is_empty && self.is(Mutant::EndsAtEmptyPages)
    }
}
