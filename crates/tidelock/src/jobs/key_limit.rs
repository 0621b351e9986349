//! Limits per key: no more jobs of one concurrency key at work at once, over all processes.
//!
//! Each key has a record of the jobs that are admitted, with the fences of their leases: so a job
//! of a process that died, or that lost its lease, is recognized. What is leased together is
//! admitted in one commit. A job for which there is no room waits in the key's [line](super::line):
//! its lease ends, and nothing leases it until it is called, so that the jobs of other keys, and
//! other queues, are not held up by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, Conflict, ExpectedRevision, Fence, ItemRef, LeaseToken, QueueName, RawJson,
    RecordWrite, Result, RetryAdvice, Settlement, Slot, Store, StoreError, StoreErrorKind,
    StoreExt, StoreOperation, Timestamp, ViolationReason, Wake, When,
};

use super::keys;
use crate::worker::LeasedTask;

/// How often a record is changed when others change it at the same time.
pub(super) const ATTEMPTS: usize = 50;

/// How long a job waits in line at most without being called: its call may have been lost with the
/// record of its key.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Jobs that one commit admits or sends into the line, each with two parts, and two for its key.
const PER_COMMIT: usize = 200;

/// The highest limit.
const MOST: u32 = 100;

/// A limit per key, of a job type.
#[derive(Debug, Clone)]
pub(super) struct KeyLimit {
    pub(super) queue: QueueName,
    pub(super) jobs: u32,
    /// How long the record of a key outlives its last change: longer than any job.
    pub(super) kept: Duration,
}

/// A job that asks to be admitted.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) task: LeasedTask,
    pub(super) key: String,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    /// It waits in line, and its lease has ended.
    Waits,
    /// Its lease is lost.
    Lost,
}

/// The record of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyRecord {
    /// The jobs that are admitted, with the fences of their leases.
    #[serde(default)]
    pub(super) admitted: BTreeMap<String, Fence>,
    /// Jobs that were called from the line, and until when there is room for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) called: BTreeMap<String, Timestamp>,
    /// Whether jobs wait in line.
    #[serde(default)]
    pub(super) has_line: bool,
}

impl KeyRecord {
    pub(super) fn read(slot: &Slot) -> Result<Self> {
        slot.live().map_or_else(|| Ok(Self::default()), |record| record.value.to())
    }

    pub(super) fn taken(&self) -> usize {
        self.admitted.len() + self.called.len()
    }

    /// Admits a job, or sends it into the line.
    fn decide(&mut self, job: &str, fence: Fence, limit: u32) -> Admission {
        match self.admitted.get(job) {
            Some(there) if *there > fence => return Admission::Lost,
            // An earlier lease of the job has ended.
            Some(_) => {}
            None if self.called.remove(job).is_some() => {}
            None if !self.has_line && self.taken() < limit as usize => {}
            None => {
                self.has_line = true;
                return Admission::Waits;
            }
        }
        self.admitted.insert(job.to_owned(), fence);
        Admission::Admitted
    }
}

impl KeyLimit {
    /// A limit of so many jobs for each key.
    pub(super) fn new(queue: &QueueName, jobs: u32, kept: Duration) -> Result<Self> {
        if !(1..=MOST).contains(&jobs) {
            return Err(StoreError::limit(format!(
                "a concurrency per key of {jobs}; it is between 1 and {MOST}"
            )));
        }
        keys::line(queue).map_err(|e| e.about("the name of a queue with a limit per key"))?;
        Ok(Self { queue: queue.clone(), jobs, kept })
    }

    /// Admits these jobs, or sends them into the lines of their keys.
    pub(super) async fn admit(
        &self,
        store: &dyn Store,
        candidates: &[Candidate],
    ) -> Result<Vec<Admission>> {
        let mut admissions = Vec::with_capacity(candidates.len());
        for candidates in candidates.chunks(PER_COMMIT) {
            admissions.extend(self.admit_some(store, candidates).await?);
        }
        Ok(admissions)
    }

    async fn admit_some(
        &self,
        store: &dyn Store,
        candidates: &[Candidate],
    ) -> Result<Vec<Admission>> {
        let mut lost = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            let (commit, admissions) = self.proposed(store, candidates, &lost).await?;
            if commit.parts() == 0 {
                return Ok(admissions);
            }
            match store.commit(commit.with_retry_id()).await?.committed() {
                Ok(_) => return Ok(admissions),
                Err(conflict) => lost.extend(lost_in(&conflict)),
            }
        }
        Err(busy(&self.queue))
    }

    /// The commit that carries the decisions out, by the records as they are now.
    async fn proposed(
        &self,
        store: &dyn Store,
        candidates: &[Candidate],
        lost: &BTreeSet<ItemRef>,
    ) -> Result<(Commit, Vec<Admission>)> {
        let named: BTreeSet<&str> = candidates.iter().map(|one| one.key.as_str()).collect();
        let records: Vec<_> = named.iter().map(|key| keys::concurrency(&self.queue, key)).collect();
        let slots = store.get(&records).await?;
        let mut found = BTreeMap::new();
        for (key, slot) in named.into_iter().zip(slots) {
            found.insert(key, (KeyRecord::read(&slot)?, slot));
        }
        let (mut commit, mut admissions) = (Commit::new(), Vec::new());
        let (before, mut lines) = (found.clone(), BTreeSet::new());
        for Candidate { task, key } in candidates {
            let (lease, (record, _)) =
                (task.lease(), found.get_mut(key.as_str()).expect("it was read"));
            let admission = match lost.contains(&lease.item) {
                true => Admission::Lost,
                false => record.decide(lease.item.key.as_str(), lease.fence, self.jobs),
            };
            if admission == Admission::Waits {
                let token = lease.token();
                commit = commit.settle(Settlement::defer(token, When::In(PATIENCE)));
                commit = commit.write(self.place_in_line(key, task)?);
                lines.insert(key.as_str());
            }
            admissions.push(admission);
        }
        for (key, (record, slot)) in &found {
            if *record != before[key].0 {
                commit = commit.write(self.write(key, record, slot)?);
            }
            if lines.contains(key) {
                commit = commit.wake(Wake::at(keys::caller(&self.queue, key), When::NOW));
            }
        }
        Ok((commit, admissions))
    }

    fn place_in_line(&self, key: &str, task: &LeasedTask) -> Result<RecordWrite> {
        let lease = task.lease();
        let place = keys::place(&self.queue, key, lease.priority, task.granted_at(), &lease.item);
        Ok(RecordWrite::put(&place, ExpectedRevision::Any, RawJson::new(&())?))
    }

    /// The write of a key's record, which must be as it was read; one that says nothing is deleted.
    pub(super) fn write(&self, key: &str, record: &KeyRecord, slot: &Slot) -> Result<RecordWrite> {
        let at = keys::concurrency(&self.queue, key);
        let expected = slot
            .live()
            .map_or(ExpectedRevision::Absent, |there| ExpectedRevision::Revision(there.revision));
        if *record == KeyRecord::default() {
            return Ok(RecordWrite::delete(&at, expected));
        }
        Ok(RecordWrite::put(&at, expected, RawJson::new(record)?).expiring(When::In(self.kept)))
    }

    /// Makes room after a job, and has the next one called if there is a line.
    pub(super) async fn leave(
        &self,
        store: &dyn Store,
        key: &str,
        lease: &LeaseToken,
    ) -> Result<()> {
        let job = lease.item.key.as_str();
        for _ in 0..ATTEMPTS {
            let slot = store.get_one(&keys::concurrency(&self.queue, key)).await?;
            let mut record = KeyRecord::read(&slot)?;
            if record.admitted.get(job) != Some(&lease.fence) {
                return Ok(());
            }
            record.admitted.remove(job);
            let commit = Commit::new().write(self.write(key, &record, &slot)?);
            let commit = match record.has_line {
                true => commit.wake(Wake::at(keys::caller(&self.queue, key), When::NOW)),
                false => commit,
            };
            if store.commit(commit.with_retry_id()).await?.committed().is_ok() {
                return Ok(());
            }
        }
        Err(busy(&self.queue))
    }
}

/// The items whose leases are lost, according to a conflict.
fn lost_in(conflict: &Conflict) -> impl Iterator<Item = ItemRef> {
    conflict.violations.iter().filter_map(|violation| match &violation.reason {
        ViolationReason::LeaseLost { lease, .. } => Some(lease.item.clone()),
        _ => None,
    })
}

pub(super) fn busy(queue: &QueueName) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Later,
        StoreOperation::Commit,
        format!(
            "the limits per key of queue {:?} were changed concurrently each time",
            queue.as_str()
        ),
    )
}
