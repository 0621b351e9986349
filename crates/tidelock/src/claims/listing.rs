//! Who is at what: for operators, and for whoever asks why nothing moves.

use serde::Serialize;
use tidelock_store::{
    Fence, Record, RecordKey, RecordPage, RecordQuery, Result, Slot, StoreExt, Timestamp,
    WorkerName,
};

use super::entry::{Entry, LeaseNote, State};
use super::{Claims, keys, quota};

/// A claim that somebody is at, or was when they died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReservation {
    /// The name of the claim.
    pub key: String,
    /// Who is at it.
    pub by: WorkerName,
    /// Since when; not known once the lease has run out.
    pub since: Option<Timestamp>,
    /// Until when, unless they ask for longer. None if the lease has run out: they died, or gave up
    /// without a word, and whoever comes next takes it over.
    pub until: Option<Timestamp>,
}

/// Claims by key, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPage {
    /// Those that somebody is at.
    pub claims: Vec<PendingReservation>,
    /// Read on after this key, if there may be more.
    pub next: Option<RecordKey>,
}

impl Claims {
    /// A page of the claims that begin like this (`lock/`, `idempotency/pay:`) and that somebody is
    /// at, or was when they died; after this key, if one is given.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn pending(&self, prefix: &str, after: Option<RecordKey>) -> Result<PendingPage> {
        let query = RecordQuery::prefix(format!("{}{prefix}", keys::CLAIMS));
        let page = self.scan(RecordQuery { after, ..query }).await?;
        let mut pending = Vec::new();
        for record in &page.records {
            let entry = Entry::read(record)?;
            if entry.is_pending() {
                pending.push((
                    keys::lease_of(&record.key)?,
                    keys::shown(&record.key).to_owned(),
                    entry.by,
                ));
            }
        }
        let leases: Vec<_> = pending.iter().map(|(lease, ..)| lease.clone()).collect();
        let slots = self.store().get(&leases).await?;
        let listed =
            pending.into_iter().zip(slots).map(|((_, key, by), slot)| listed(key, by, &slot));
        Ok(PendingPage { claims: listed.collect(), next: page.next })
    }
}

fn listed(key: String, by: WorkerName, lease: &Slot) -> PendingReservation {
    let lease = lease.live();
    PendingReservation {
        key,
        by,
        since: lease.and_then(LeaseNote::since),
        until: lease.and_then(|l| l.expires_at),
    }
}

/// How a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Somebody is at it.
    Pending,
    /// Somebody was at it, and their lease has run out: they died, or gave up without a word.
    Stale,
    /// It was done.
    Done,
    /// It was done, and failed.
    Failed,
}

impl ClaimState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Stale, Self::Done, Self::Failed];

    /// Its name, as it is serialized.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Stale => "stale",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// A claim, as it stands. What came of it is not told here: it may be large, and is nobody's
/// business but that of who asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimInfo {
    /// The name of the claim, with its kind.
    pub key: String,
    /// How it stands.
    pub state: ClaimState,
    /// Who is at it, or was.
    pub by: WorkerName,
    /// Grows with every claimant; the one that is at it holds it under this.
    pub fence: Fence,
    /// Since when; once the lease of somebody who is not done has run out, going by the clock that
    /// they had.
    pub since: Option<Timestamp>,
    /// Until when, unless they ask for longer; of a result, how long it is kept.
    pub until: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Claims by key, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimPage {
    /// The claims.
    pub claims: Vec<ClaimInfo>,
    /// Read on after this key, if there may be more.
    pub next: Option<RecordKey>,
}

/// A quota that somebody has taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaInfo {
    /// The name of the quota, with its kind and period.
    pub key: String,
    /// How much is taken, reservations included.
    pub used: i64,
    /// When there is as much again, if ever.
    pub resets_at: Option<Timestamp>,
}

/// Quotas by key, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaPage {
    /// The quotas whose period is open.
    pub quotas: Vec<QuotaInfo>,
    /// Read on after this key, if there may be more.
    pub next: Option<RecordKey>,
}

impl Claims {
    /// A page of the claims that begin like this (`lock/`, `idempotency/pay:`), whatever came of
    /// them, after this key.
    ///
    /// # Errors
    /// `LimitExceeded` if more are asked for than a page has; otherwise what the store says.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<ClaimPage> {
        let query = RecordQuery { prefix: format!("{}{prefix}", keys::CLAIMS), after, limit };
        let page = self.scan(query).await?;
        let leases = page.records.iter().map(|record| keys::lease_of(&record.key));
        let slots = self.slots(leases.collect::<Result<_>>()?).await?;
        let listed =
            page.records.iter().zip(&slots).map(|(record, lease)| ClaimInfo::of(record, lease));
        Ok(ClaimPage { claims: listed.collect::<Result<_>>()?, next: page.next })
    }

    /// A page of the quotas that begin like this and that somebody has taken from in the period
    /// that is open, after this key.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn quotas(
        &self,
        prefix: &str,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<QuotaPage> {
        let query = RecordQuery { prefix: keys::windows(prefix), after, limit };
        let page = self.store().full_page(query).await?;
        let names = || page.records.iter().map(|record| keys::of_window(&record.key));
        let taken = self.slots(names().map(keys::taken_of).collect::<Result<_>>()?).await?;
        let ledgers = self.slots(names().map(keys::ledger).collect::<Result<_>>()?).await?;
        let mut quotas = Vec::new();
        for ((window, taken), ledger) in page.records.iter().zip(&taken).zip(&ledgers) {
            let mut listed = QuotaInfo::of(window, taken)?;
            // What is past its end does not count, whether or not it was credited.
            if ledger.live().is_some() {
                let taken = quota::taken(&**self.store(), &listed.key).await?;
                listed.used = taken.map_or(0, |(used, _)| used);
            }
            quotas.push(listed);
        }
        Ok(QuotaPage { quotas, next: page.next })
    }

    /// A page of claims, without the leases that stand between them. Like the store, it gives less
    /// than a page rather than look at everything.
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
    /// Whether it is a lock: of one that nobody holds, nothing is left to be done.
    pub fn is_lock(&self) -> bool {
        self.key.split('/').next() == Some(keys::LOCK)
    }

    fn of(record: &Record, lease: &Slot) -> Result<Self> {
        let (entry, lease) = (Entry::read(record)?, lease.live());
        let (state, since, until) = match (entry.state, lease) {
            (State::Pending, Some(lease)) => {
                (ClaimState::Pending, LeaseNote::since(lease), lease.expires_at)
            }
            (State::Pending, None) => (ClaimState::Stale, entry.begun(), None),
            (State::Done, _) => (ClaimState::Done, entry.at, record.expires_at),
            (State::Failed, _) => (ClaimState::Failed, entry.at, record.expires_at),
        };
        Ok(Self {
            key: keys::shown(&record.key).to_owned(),
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
            key: keys::of_window(&window.key).to_owned(),
            used,
            resets_at: window.expires_at,
        })
    }
}
