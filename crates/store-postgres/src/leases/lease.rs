//! A lease call: scan, select, grant, and compute the next due time.

use std::collections::HashSet;

use tidelock_store::plan::FairShare;
use tidelock_store::{ItemKey, Lease, LeaseRequest, Leased, Result, Timestamp};

use super::grant::{GRANT, grant};
use super::scan::{self, NEXT_DUE, SPARE, Scan};
use super::scan_hints::ScanHints;
use crate::connect::LazyConnection;
use crate::connect::Session;
use crate::error::failed;

/// How often to scan again when other sessions have taken everything that was found.
const TRIES: usize = 5;

/// Starts at the scan hints, and scans from the beginning if that found nothing.
pub(crate) async fn lease(
    connection: &LazyConnection,
    request: &LeaseRequest,
    fair_share: &FairShare,
    hints: &ScanHints,
) -> Result<Leased> {
    let session = &*connection.session().await?;
    let call = Call { session, request, fair_share, hints };
    match call.by_hints().await? {
        Some(leased) => Ok(leased),
        None => call.by_whole().await,
    }
}

struct Call<'a> {
    session: &'a Session,
    request: &'a LeaseRequest,
    fair_share: &'a FairShare,
    hints: &'a ScanHints,
}

/// The leases, and when they were granted.
struct Taken {
    at: Timestamp,
    leases: Vec<Lease>,
}

impl Taken {
    fn leased(self, next_due: Option<Timestamp>) -> Leased {
        Leased { at: self.at, leases: self.leases, next_due }
    }
}

impl Call<'_> {
    /// None if nothing was taken: that does not prove that nothing is ready.
    async fn by_hints(&self) -> Result<Option<Leased>> {
        let Some(recalled) = self.hints.recall(self.request) else { return Ok(None) };
        let found = scan::from(self.session, self.request, &recalled.hints).await?;
        self.hints.advance(self.request, &recalled, &found);
        let Some(taken) = self.take(&found).await? else { return Ok(None) };
        let next_due = self.left(&found, &taken).unwrap_or_else(|| {
            let deadlines = taken.leases.iter().map(|lease| lease.deadline);
            deadlines.fold(recalled.next_due(taken.at), Timestamp::min)
        });
        Ok(Some(taken.leased(Some(next_due))))
    }

    async fn by_whole(&self) -> Result<Leased> {
        for _ in 0..TRIES {
            let found = scan::whole(self.session, self.request, self.hints).await?;
            if found.ready.is_empty() {
                return self.nothing(&found);
            }
            if let Some(leased) = self.take_and_find_next(&found).await? {
                self.hints.remember(self.request, &found, leased.next_due);
                return Ok(leased);
            }
            if found.ready.len() < self.request.limit + SPARE {
                // Other sessions are taking the few ready items at this moment.
                break;
            }
        }
        self.nothing(&scan::whole(self.session, self.request, self.hints).await?)
    }

    fn nothing(&self, found: &Scan) -> Result<Leased> {
        let next_due = found.next_due()?;
        self.hints.remember(self.request, found, next_due);
        Ok(Leased { at: found.now, leases: Vec::new(), next_due })
    }

    /// Grants leases, and finds out when more will be due. Unless more is ready already, the second
    /// query is pipelined with the first.
    async fn take_and_find_next(&self, found: &Scan) -> Result<Option<Leased>> {
        if found.ready.len() > self.request.limit {
            let Some(taken) = self.take(found).await? else { return Ok(None) };
            let next_due = match self.left(found, &taken) {
                Some(left) => Some(left),
                None => self.next_due(found).await?,
            };
            return Ok(Some(taken.leased(next_due)));
        }
        // A statement that is prepared on the way would let the second query overtake the first.
        self.session.prepare_all(&[&GRANT, &NEXT_DUE]).await.map_err(failed)?;
        let (taken, next_due) = tokio::join!(self.take(found), self.next_due(found));
        let Some(taken) = taken? else { return Ok(None) };
        Ok(Some(taken.leased(next_due?)))
    }

    async fn next_due(&self, found: &Scan) -> Result<Option<Timestamp>> {
        scan::next_due(self.session, self.request, &found.hints).await
    }

    /// Takes as many as are wanted; none if other sessions took all of them.
    async fn take(&self, found: &Scan) -> Result<Option<Taken>> {
        if found.ready.is_empty() {
            return Ok(None);
        }
        let order =
            self.fair_share.order(self.request, found.ready.clone(), self.request.limit + SPARE);
        let Some((at, leases)) = grant(self.session, self.request, &order).await? else {
            return Ok(None);
        };
        self.fair_share.count(self.request, leases.len());
        Ok(Some(Taken { at, leases }))
    }

    /// Since when the oldest item that was seen and not wanted has been ready. None if there was
    /// none, or if other sessions took some: then the state of the rest is unknown.
    fn left(&self, found: &Scan, taken: &Taken) -> Option<Timestamp> {
        if taken.leases.len() < self.request.limit {
            return None;
        }
        let gone: HashSet<&ItemKey> = taken.leases.iter().map(|lease| &lease.item.key).collect();
        let left = found.ready.iter().filter(|candidate| !gone.contains(&candidate.key));
        left.map(|candidate| candidate.ready_at).min()
    }
}
