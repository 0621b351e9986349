//! [`JobCtx`]: the unit of work of a job's handler, and the job that it handles.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tidelock_store::{Commit, ItemRef, LeaseToken, RawJson, Revision};
use tokio_util::sync::CancellationToken;

use super::job_record::JobRecord;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Tidelock;
use crate::staging::{Staged, Tx};
use crate::worker::LeasedTask;

/// The context of a job's handler: a [`Tx`] that lands with the end of the job, or not at all.
#[derive(Debug, Clone)]
pub struct JobCtx {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    task: LeasedTask,
    record: Mutex<JobRecord>,
    tx: Tx,
}

impl JobCtx {
    pub(super) fn new(
        tidelock: &Tidelock,
        task: &LeasedTask,
        payload: Revision,
        record: JobRecord,
    ) -> Self {
        let tx = Tx::new(tidelock, record.inherited(), effect_key(&task.lease().item, payload));
        let shared = Shared { task: task.clone(), record: Mutex::new(record), tx };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the job's key: the one that it was enqueued under, or a generated one.
    pub fn key(&self) -> &str {
        self.shared.task.lease().item.key.as_str()
    }

    /// Returns the number of this attempt, beginning with 1. Failed attempts and those whose
    /// process died are counted.
    pub fn attempt(&self) -> u32 {
        let lease = self.shared.task.lease();
        lease.failures.saturating_add(lease.expiries).saturating_add(1)
    }

    /// Reports the progress of the job: any value, for [`Jobs::get`](super::Jobs::get) and the
    /// lists.
    ///
    /// It is stored at once, in its own commit under the job's lease. The latest value counts; it
    /// is deleted with the end of the job.
    ///
    /// # Errors
    /// `LeaseLost` if the job was taken over or cancelled; `Invalid` if the value cannot be stored;
    /// the store's errors.
    pub async fn progress(&self, progress: &(impl Serialize + ?Sized)) -> Result<()> {
        let record = JobRecord { progress: Some(RawJson::new(progress)?), ..self.record() };
        let write = record.write(&self.shared.task.lease().item)?;
        let commit = Commit::new().write(write).fenced_by(self.lease());
        if self.shared.task.commit(commit).await?.committed().is_err() {
            self.shared.task.lost().cancel();
            return Err(Error::new(ErrorKind::LeaseLost, "the job's lease is lost"));
        }
        *self.shared.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
        Ok(())
    }

    /// Returns the lease token, for a separate commit that must not land once the lease is lost.
    pub fn lease(&self) -> LeaseToken {
        self.shared.task.token()
    }

    /// Returns a token that is cancelled when the lease is lost, or the job is cancelled: what is
    /// committed from then on is refused, so stop.
    pub fn lost(&self) -> &CancellationToken {
        self.shared.task.lost()
    }

    /// Returns a token that is cancelled when the process shuts down. A long job may stop early
    /// then, but need not.
    pub fn stopping(&self) -> &CancellationToken {
        self.shared.task.stopping()
    }

    /// What was staged, once the handler is done.
    pub(super) fn take(&self) -> Staged {
        self.shared.tx.finish()
    }

    /// The job's record, with the progress so far.
    pub(super) fn record(&self) -> JobRecord {
        self.shared.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deref for JobCtx {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.shared.tx
    }
}

/// The same for every attempt at a job, and another for a later job under the same key.
fn effect_key(item: &ItemRef, payload: Revision) -> String {
    format!("{}:{}:{payload}", item.queue, item.key)
}
