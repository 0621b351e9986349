//! Lease on the closing of one stream, renewed during the work.

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Conflict, Lease, LeaseRequest, LeaseToken, Renewal, Result, Revision,
    Settlement, Store, StoreExt, StreamName, Timestamp, ViolationKind, Wake, When, WorkerName,
    fresh_uuid, limits,
};

use super::error::CloseError;
use super::keys;
use super::record::ClosingRecord;

pub(super) struct ClosingLease<'a> {
    store: &'a dyn Store,
    pub(super) stream: &'a StreamName,
    lease: Lease,
    /// The duration of the lease: how long other callers are locked out after the holder died.
    duration: Duration,
    /// When the lease was acquired.
    pub(super) since: Timestamp,
}

impl<'a> ClosingLease<'a> {
    /// Acquires the lease, unless another caller holds it.
    pub(super) async fn acquire(
        store: &'a dyn Store,
        stream: &'a StreamName,
        duration: Duration,
    ) -> Result<Self, CloseError> {
        let item = keys::item(stream);
        let worker = WorkerName::new(format!("closing-{}", fresh_uuid()))?;
        let request = LeaseRequest::new(&item.queue, &worker, duration, 1);
        request.check()?;
        let _woken = store.commit(Commit::new().wake(Wake::at(item.clone(), When::NOW))).await?;
        let leased = store.lease(request).await?;
        let since = leased.at;
        match leased.leases.into_iter().next() {
            Some(lease) => Ok(Self { store, stream, lease, duration, since }),
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

    fn token(&self) -> LeaseToken {
        self.lease.token()
    }

    /// Runs a long operation and renews the lease meanwhile.
    pub(super) async fn renew_during<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, CloseError> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.duration / 3, &mut work).await {
                return Ok(done);
            }
            match self.store.renew(&[self.token()], self.duration).await {
                Ok(renewed) if matches!(renewed[..], [Renewal::Lost(_)]) => return Err(self.lost()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(stream = %self.stream, %error, "the lease of a closing was not renewed");
                }
            }
        }
    }

    /// Makes a commit that is fenced by this lease.
    pub(super) async fn commit(&self, commit: Commit) -> Result<CommitOutcome, CloseError> {
        let outcome = self.store.commit(commit).await?;
        match &outcome {
            CommitOutcome::Conflict(conflict) if is_lost(conflict) => Err(self.lost()),
            _ => Ok(outcome),
        }
    }

    /// Builds the commit that records the progress, on the condition that the lease is held.
    pub(super) fn record_commit(&self, record: &ClosingRecord) -> Result<Commit> {
        Ok(Commit::new().write(record.write(self.stream)?).fenced_by(self.token()))
    }

    /// Records the progress.
    pub(super) async fn record(
        &self,
        record: &ClosingRecord,
    ) -> Result<Option<Revision>, CloseError> {
        match self.commit(self.record_commit(record)?).await?.committed() {
            Ok(committed) => Ok(committed.writes.first().and_then(|written| written.revision)),
            Err(_) => Err(self.lost()),
        }
    }

    /// Ends the lease. The item is not needed again: the next caller wakes it or creates another.
    pub(super) async fn release(self) {
        let forget = When::In(limits::ITEM_MEMORY);
        let finished =
            Commit::new().settle(Settlement::finish(self.token(), self.lease.mark, forget));
        // If this fails, the lease expires.
        let _ = self.store.commit(finished).await;
    }

    fn lost(&self) -> CloseError {
        CloseError::Busy { stream: self.stream.clone(), until: None }
    }
}

fn is_lost(conflict: &Conflict) -> bool {
    conflict.violations.iter().any(|clash| clash.reason.kind() == ViolationKind::LeaseLost)
}
