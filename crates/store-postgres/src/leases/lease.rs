//! One call that asks for leases: look, choose, take, and say when to come back.

use std::collections::HashSet;

use tidelock_store::plan::FairShare;
use tidelock_store::{ItemKey, Lease, LeaseRequest, Leased, Result, Timestamp};

use super::grant::{GRANT, grant};
use super::scan::{self, NEXT_DUE, SPARE, Scan};
use super::scan_hints::ScanHints;
use crate::error::failed;
use crate::lazy_connection::LazyConnection;
use crate::session::Session;

/// How often to look again when others have taken everything that was looked at.
const TRIES: usize = 5;

/// Begins where there was something before, and looks at the whole if nothing came of that.
pub(crate) async fn lease(
    link: &LazyConnection,
    request: &LeaseRequest,
    turns: &FairShare,
    fronts: &ScanHints,
) -> Result<Leased> {
    let session = &*link.session().await?;
    let call = Call { session, request, turns, fronts };
    match call.by_fronts().await? {
        Some(leased) => Ok(leased),
        None => call.by_whole().await,
    }
}

struct Call<'a> {
    session: &'a Session,
    request: &'a LeaseRequest,
    turns: &'a FairShare,
    fronts: &'a ScanHints,
}

/// What was taken, and when.
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
    /// Nothing, if nothing was taken: that alone does not say that there is nothing.
    async fn by_fronts(&self) -> Result<Option<Leased>> {
        let Some(recalled) = self.fronts.recall(self.request) else { return Ok(None) };
        let look = scan::from(self.session, self.request, &recalled.fronts).await?;
        self.fronts.advance(self.request, &recalled, &look);
        let Some(taken) = self.take(&look).await? else { return Ok(None) };
        let next_due = self.left(&look, &taken).unwrap_or_else(|| {
            let deadlines = taken.leases.iter().map(|lease| lease.deadline);
            deadlines.fold(recalled.next_due(taken.at), Timestamp::min)
        });
        Ok(Some(taken.leased(Some(next_due))))
    }

    async fn by_whole(&self) -> Result<Leased> {
        for _ in 0..TRIES {
            let look = scan::whole(self.session, self.request, self.fronts).await?;
            if look.ready.is_empty() {
                return self.nothing(&look);
            }
            if let Some(leased) = self.take_and_look_on(&look).await? {
                self.fronts.remember(self.request, &look, leased.next_due);
                return Ok(leased);
            }
            if look.ready.len() < self.request.limit + SPARE {
                // Others are taking the little there is at this very moment.
                break;
            }
        }
        self.nothing(&scan::whole(self.session, self.request, self.fronts).await?)
    }

    fn nothing(&self, look: &Scan) -> Result<Leased> {
        let next_due = look.next_due()?;
        self.fronts.remember(self.request, look, next_due);
        Ok(Leased { at: look.now, leases: Vec::new(), next_due })
    }

    /// Takes, and finds out when there will be more. Unless more is ready already, the second
    /// question is sent along with the first.
    async fn take_and_look_on(&self, look: &Scan) -> Result<Option<Leased>> {
        if look.ready.len() > self.request.limit {
            let Some(taken) = self.take(look).await? else { return Ok(None) };
            let next_due = match self.left(look, &taken) {
                Some(left) => Some(left),
                None => self.next_due(look).await?,
            };
            return Ok(Some(taken.leased(next_due)));
        }
        // What is prepared on the way would let the second question overtake the first.
        self.session.prepare_all(&[&GRANT, &NEXT_DUE]).await.map_err(failed)?;
        let (taken, next_due) = tokio::join!(self.take(look), self.next_due(look));
        let Some(taken) = taken? else { return Ok(None) };
        Ok(Some(taken.leased(next_due?)))
    }

    async fn next_due(&self, look: &Scan) -> Result<Option<Timestamp>> {
        scan::next_due(self.session, self.request, &look.fronts).await
    }

    /// Takes as many as are wanted; nothing if others were quicker with all of them.
    async fn take(&self, look: &Scan) -> Result<Option<Taken>> {
        if look.ready.is_empty() {
            return Ok(None);
        }
        let order = self.turns.order(self.request, look.ready.clone(), self.request.limit + SPARE);
        let Some((at, leases)) = grant(self.session, self.request, &order).await? else {
            return Ok(None);
        };
        self.turns.count(self.request, leases.len());
        Ok(Some(Taken { at, leases }))
    }

    /// Since when the longest of those has been ready that were seen and not wanted. Nothing, if
    /// there were none, or if others have taken some: then nobody knows what became of the rest.
    fn left(&self, look: &Scan, taken: &Taken) -> Option<Timestamp> {
        if taken.leases.len() < self.request.limit {
            return None;
        }
        let gone: HashSet<&ItemKey> = taken.leases.iter().map(|lease| &lease.item.key).collect();
        let left = look.ready.iter().filter(|candidate| !gone.contains(&candidate.key));
        left.map(|candidate| candidate.ready_at).min()
    }
}
