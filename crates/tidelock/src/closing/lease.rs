//! The right to work on one stream's books: a lease that is renewed for as long as somebody works.

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Conflict, Lease, LeaseRequest, LeaseToken, Renewal, Result, Revision,
    Settlement, Store, StoreExt, StreamName, Timestamp, ViolationKind, Wake, When, WorkerName,
    limits,
};
use uuid::Uuid;

use super::books::Books;
use super::error::CloseError;
use super::keys;

pub(super) struct ClosingLease<'a> {
    store: &'a dyn Store,
    stream: StreamName,
    lease: Lease,
    /// The duration of the lease: how long a caller that has died keeps others out.
    duration: Duration,
    since: Timestamp,
}

impl<'a> ClosingLease<'a> {
    /// Sits down, unless somebody else is there.
    pub(super) async fn take(
        store: &'a dyn Store,
        stream: &StreamName,
        duration: Duration,
    ) -> Result<Self, CloseError> {
        let item = keys::item(stream);
        let worker = WorkerName::new(format!("closing-{}", Uuid::now_v7()))?;
        let request = LeaseRequest::new(&item.queue, &worker, duration, 1);
        request.check()?;
        let _woken = store.commit(Commit::new().wake(Wake::at(item.clone(), When::NOW))).await?;
        let leased = store.lease(request).await?;
        let since = leased.at;
        match leased.leases.into_iter().next() {
            Some(lease) => Ok(Self { store, stream: stream.clone(), lease, duration, since }),
            None => {
                let until = store
                    .item(&item)
                    .await?
                    .and_then(|item| item.holder)
                    .map(|holder| holder.deadline);
                Err(CloseError::Busy { stream: stream.clone(), until })
            }
        }
    }

    pub(super) fn token(&self) -> LeaseToken {
        self.lease.token()
    }

    /// When this one sat down.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// Does something that may take long, and stays at the desk meanwhile.
    pub(super) async fn keep<T>(&self, work: impl Future<Output = T>) -> Result<T, CloseError> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.duration / 3, &mut work).await {
                return Ok(done);
            }
            match self.store.renew(&[self.token()], self.duration).await {
                Ok(renewed) if matches!(renewed[..], [Renewal::Lost(_)]) => return Err(self.lost()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(stream = %self.stream, %error, "the lease on a stream's books was not renewed");
                }
            }
        }
    }

    /// Makes a commit that is fenced by this desk's lease.
    pub(super) async fn commit(&self, commit: Commit) -> Result<CommitOutcome, CloseError> {
        let outcome = self.store.commit(commit).await?;
        match &outcome {
            CommitOutcome::Conflict(conflict) if is_lost(conflict) => Err(self.lost()),
            _ => Ok(outcome),
        }
    }

    /// Notes how far the books have come.
    pub(super) async fn note(
        &self,
        books: &Books,
        stream: &StreamName,
    ) -> Result<Option<Revision>, CloseError> {
        match self.commit(books.note(self, stream)?).await?.committed() {
            Ok(committed) => Ok(committed.writes.first().and_then(|written| written.revision)),
            Err(_) => Err(self.lost()),
        }
    }

    /// Ends the lease. The item is not needed again: the next caller wakes it, or makes another.
    pub(super) async fn leave(self) {
        let forget = When::In(limits::ITEM_MEMORY);
        let finished =
            Commit::new().settle(Settlement::finish(self.token(), self.lease.mark, forget));
        // If it does not get through, the lease runs out.
        let _ = self.store.commit(finished).await;
    }

    fn lost(&self) -> CloseError {
        CloseError::Busy { stream: self.stream.clone(), until: None }
    }
}

fn is_lost(conflict: &Conflict) -> bool {
    conflict.violations.iter().any(|clash| clash.reason.kind() == ViolationKind::LeaseLost)
}
