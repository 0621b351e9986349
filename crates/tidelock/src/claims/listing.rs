//! Paged listings of claims and quotas, for operators.

use serde::Serialize;
use tidelock_store::{
    Fence, Record, RecordKey, RecordPage, RecordQuery, Result, Slot, StoreExt, Timestamp,
    WorkerName,
};

use super::entry::{Entry, LeaseRecord, State};
use super::{Claims, keys, quota};
use crate::list::{List, Page};

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// In progress.
    Pending,
    /// The lease has expired without a result: the claimant died or gave up silently.
    Stale,
    /// Completed.
    Done,
    /// Failed.
    Failed,
}

impl ClaimState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Stale, Self::Done, Self::Failed];

    /// Returns the serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Stale => "stale",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// A claim without its result, which may be large and is returned only to its claimants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimInfo {
    /// The claim's name, with its kind.
    pub key: String,
    /// Its state.
    pub state: ClaimState,
    /// Its claimant, current or last.
    pub by: WorkerName,
    /// The fence, which grows with every claimant.
    pub fence: Fence,
    /// When it was acquired. If the lease has expired without a result, by the claimant's clock.
    pub since: Option<Timestamp>,
    /// When the lease expires, unless it is renewed; for a result, when it expires.
    pub until: Option<Timestamp>,
    /// The error of failed work.
    pub error: Option<String>,
}

/// A quota with units taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaInfo {
    /// The quota's name, with its kind and period.
    pub key: String,
    /// Units taken, including reservations.
    pub used: i64,
    /// When the window resets, if ever.
    pub resets_at: Option<Timestamp>,
}

impl Claims {
    /// Lists claims in any state by key prefix (`lock/`, `idempotency/pay:`), ordered by key.
    pub fn list(&self, prefix: impl AsRef<str>) -> List<ClaimInfo, RecordKey> {
        let (claims, prefix) = (self.clone(), prefix.as_ref().to_owned());
        List::new(move |after, limit| {
            let (claims, prefix) = (claims.clone(), prefix.clone());
            async move { Ok(claims.page(&prefix, after, limit).await?) }
        })
    }

    pub(crate) async fn page(
        &self,
        prefix: &str,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Page<ClaimInfo, RecordKey>> {
        let query = RecordQuery { prefix: format!("{}{prefix}", keys::CLAIMS), after, limit };
        let page = self.scan(query).await?;
        let leases = page.records.iter().map(|record| keys::lease_of(&record.key));
        let slots = self.slots(leases.collect::<Result<_>>()?).await?;
        let listed =
            page.records.iter().zip(&slots).map(|(record, lease)| ClaimInfo::of(record, lease));
        Ok(Page { items: listed.collect::<Result<_>>()?, next: page.next })
    }

    /// Lists the quotas with units taken in the open window by key prefix, ordered by key.
    pub fn quotas(&self, prefix: impl AsRef<str>) -> List<QuotaInfo, RecordKey> {
        let (claims, prefix) = (self.clone(), keys::windows(prefix.as_ref()));
        List::new(move |after, limit| {
            let (claims, prefix) = (claims.clone(), prefix.clone());
            async move { Ok(claims.quota_page(RecordQuery { prefix, after, limit }).await?) }
        })
    }

    async fn quota_page(&self, query: RecordQuery) -> Result<Page<QuotaInfo, RecordKey>> {
        let page = self.store().full_page(query).await?;
        let names = || page.records.iter().map(|record| keys::quota_of_window(&record.key));
        let taken = self.slots(names().map(keys::taken_of).collect::<Result<_>>()?).await?;
        let ledgers = self.slots(names().map(keys::ledger).collect::<Result<_>>()?).await?;
        let mut quotas = Vec::new();
        for ((window, taken), ledger) in page.records.iter().zip(&taken).zip(&ledgers) {
            let mut listed = QuotaInfo::of(window, taken)?;
            // Expired reservations do not count, credited or not.
            if ledger.live().is_some() {
                let taken = quota::taken(&**self.store(), &listed.key).await?;
                listed.used = taken.map_or(0, |(used, _)| used);
            }
            quotas.push(listed);
        }
        Ok(Page { items: quotas, next: page.next })
    }

    /// Reads a page of claims without the leases between them. Like the store, it may return fewer
    /// than a page instead of scanning everything.
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        let mut page = self.store().full_page(query.clone()).await?;
        let mut found = page.records.len();
        page.records.retain(is_claim);
        while page.records.len() < query.limit && page.next.is_some() && found > 0 {
            let limit = query.limit - page.records.len();
            let more = RecordQuery { prefix: query.prefix.clone(), after: page.next, limit };
            let more = self.store().full_page(more).await?;
            found = more.records.len();
            page.records.extend(more.records.into_iter().filter(is_claim));
            page.next = more.next;
        }
        Ok(page)
    }

    async fn slots(&self, keys: Vec<RecordKey>) -> Result<Vec<Slot>> {
        if keys.is_empty() { Ok(Vec::new()) } else { self.store().get(&keys).await }
    }
}

fn is_claim(record: &Record) -> bool {
    !keys::is_lease(&record.key)
}

impl ClaimInfo {
    /// Whether it is a lock. A stale lock needs no action.
    pub fn is_lock(&self) -> bool {
        self.key.split('/').next() == Some(keys::LOCK)
    }

    fn of(record: &Record, lease: &Slot) -> Result<Self> {
        let (entry, lease) = (Entry::read(record)?, lease.live());
        let (state, since, until) = match (entry.state, lease) {
            (State::Pending, Some(lease)) => {
                (ClaimState::Pending, LeaseRecord::since(lease), lease.expires_at)
            }
            (State::Pending, None) => (ClaimState::Stale, entry.acquired_at(), None),
            (State::Done, _) => (ClaimState::Done, entry.at, record.expires_at),
            (State::Failed, _) => (ClaimState::Failed, entry.at, record.expires_at),
        };
        Ok(Self {
            key: keys::name_of(&record.key).to_owned(),
            state,
            by: entry.by,
            fence: Fence::new(record.revision.get())?,
            since,
            until,
            error: entry.error,
        })
    }
}

impl QuotaInfo {
    fn of(window: &Record, taken: &Slot) -> Result<Self> {
        let used = taken.live().map(|record| record.value.to()).transpose()?.unwrap_or(0);
        Ok(Self {
            key: keys::quota_of_window(&window.key).to_owned(),
            used,
            resets_at: window.expires_at,
        })
    }
}
