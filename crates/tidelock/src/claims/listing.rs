//! Who is at what: for operators, and for whoever asks why nothing moves.

use tidelock_store::{RecordKey, RecordQuery, Result, Slot, Timestamp, WorkerName};

use super::entry::{Entry, LeaseNote};
use super::{Claims, keys};

/// A claim that somebody is at, or was when they died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The name of the claim.
    pub key: String,
    /// Who is at it.
    pub by: WorkerName,
    /// Since when; not known once the lease has run out.
    pub since: Option<Timestamp>,
    /// Until when, unless they ask for longer. None if the lease has run out: they died, or gave up without a word, and whoever comes next takes it over.
    pub until: Option<Timestamp>,
}

/// Claims by key, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPage {
    /// Those that somebody is at.
    pub claims: Vec<Pending>,
    /// Read on after this key, if there may be more.
    pub next: Option<RecordKey>,
}

impl Claims {
    /// A page of the claims that begin like this (`lock/`, `idempotency/pay:`) and that somebody is at, or was when they died;
    /// after this key, if one is given.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn pending(&self, prefix: &str, after: Option<RecordKey>) -> Result<PendingPage> {
        let query = RecordQuery::prefix(format!("{}{prefix}", keys::CLAIMS));
        let page = self.store().scan(RecordQuery { after, ..query }).await?;
        let mut pending = Vec::new();
        for record in &page.records {
            let entry = Entry::read(record)?;
            if entry.is_pending() {
                pending.push((keys::lease_of(&record.key)?, keys::shown(&record.key).to_owned(), entry.by));
            }
        }
        let leases: Vec<_> = pending.iter().map(|(lease, ..)| lease.clone()).collect();
        let slots = self.store().get(&leases).await?;
        let listed = pending.into_iter().zip(slots).map(|((_, key, by), slot)| listed(key, by, &slot));
        Ok(PendingPage { claims: listed.collect(), next: page.next })
    }
}

fn listed(key: String, by: WorkerName, lease: &Slot) -> Pending {
    let lease = lease.live();
    Pending { key, by, since: lease.and_then(LeaseNote::since), until: lease.and_then(|l| l.expires_at) }
}
