//! Wait queue of a lock, stored in the database: FIFO across processes.
//!
//! A waiter writes a mark that the lock has waiters; the revision of that write is its number. Then
//! it takes a slot, a record that expires unless its waiter renews it. The lowest number among the
//! slots is first. Slots are reused, so a queue leaves behind no more records than its greatest
//! length.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, RawJson, Record, RecordKey,
    RecordQuery, RecordWrite, Result, Revision, Store, StoreError, StoreExt, When, WorkerName,
};
use tokio::time::Instant;

use super::super::acquire::{Acquire, ConflictVerdict, found};
use super::super::{ClaimKey, Claims, keys};

/// Capacity of a wait queue. A waiter that finds no slot polls for one.
pub(super) const CAPACITY: usize = 256;
/// Lease of a queue slot.
const SLOT_LEASE: Duration = Duration::from_secs(3);

/// Condition that a lock has no waiters.
#[derive(Debug)]
pub(in super::super) struct NoWaiters {
    pub(in super::super) key: ClaimKey,
    mark: RecordKey,
    /// Whether the condition failed.
    pub(in super::super) failed: bool,
}

impl NoWaiters {
    pub(in super::super) fn new(key: &ClaimKey) -> Result<Self> {
        Ok(Self { key: key.clone(), mark: keys::waiter_mark(key)?, failed: false })
    }
}

impl Acquire for NoWaiters {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.guard_record(&self.mark, ExpectedRevision::Absent))
    }

    fn detects_commit(&self) -> bool {
        false
    }

    fn won(&mut self, _: &Committed) -> Result<()> {
        Ok(())
    }

    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        self.failed = found(conflict, &self.mark).is_some();
        Ok(if self.failed { ConflictVerdict::Refused } else { ConflictVerdict::Unrelated })
    }
}

/// Content of a queue slot.
#[derive(Debug, Serialize, Deserialize)]
struct SlotRecord {
    number: Revision,
    by: WorkerName,
}

/// A waiter in the queue.
#[derive(Debug)]
pub(in super::super) struct Waiter {
    claims: Claims,
    pub(in super::super) key: ClaimKey,
    mark: RecordKey,
    number: Option<Revision>,
    slot: Option<QueueSlot>,
}

#[derive(Debug)]
struct QueueSlot {
    record: RecordKey,
    revision: Revision,
    kept: Instant,
}

/// Position of a waiter.
pub(in super::super) enum QueuePosition {
    /// First; this commit leaves the queue.
    First(Commit),
    /// Behind another waiter.
    Behind(Ahead),
}

/// The next waiter ahead.
pub(in super::super) struct Ahead {
    pub(in super::super) by: WorkerName,
    pub(in super::super) slot: RecordKey,
}

impl Waiter {
    pub(in super::super) fn new(claims: &Claims, key: &ClaimKey) -> Result<Self> {
        Ok(Self {
            claims: claims.clone(),
            key: key.clone(),
            mark: keys::waiter_mark(key)?,
            number: None,
            slot: None,
        })
    }

    /// Returns the first waiter, if any.
    pub(in super::super) async fn first(&self) -> Result<Option<WorkerName>> {
        let first = self.waiters().await?.into_iter().min_by_key(|(_, slot)| slot.number);
        Ok(first.map(|(_, slot)| slot.by))
    }

    /// Takes or renews a slot and returns the position.
    pub(in super::super) async fn position(&mut self) -> Result<QueuePosition> {
        let number = self.number().await?;
        self.renew_slot(number).await?;
        let waiters = self.waiters().await?;
        let ahead = waiters.iter().filter(|(_, other)| other.number < number);
        if let Some((record, ahead)) = ahead.max_by_key(|(_, other)| other.number) {
            return Ok(QueuePosition::Behind(Ahead {
                by: ahead.by.clone(),
                slot: record.key.clone(),
            }));
        }
        if self.slot.is_none() {
            // The queue is full; wait for the last entry.
            if let Some((record, last)) = waiters.iter().max_by_key(|(_, other)| other.number) {
                return Ok(QueuePosition::Behind(Ahead {
                    by: last.by.clone(),
                    slot: record.key.clone(),
                }));
            }
        }
        Ok(QueuePosition::First(self.slot.as_ref().map_or_else(Commit::new, QueueSlot::release)))
    }

    /// The slot was released in a commit that succeeded.
    pub(in super::super) fn forget_slot(&mut self) {
        self.slot = None;
    }

    /// Leaves the queue.
    pub(in super::super) async fn leave(mut self) -> Result<()> {
        if let Some(slot) = self.slot.take() {
            // If the slot expired, there is nothing to release.
            let _left = self.claims.send(&slot.release()).await?;
        }
        Ok(())
    }

    /// Assigns the numbers of several queues in one commit. A later caller is behind in every queue
    /// that both are in, so two callers never wait for each other.
    pub(in super::super) async fn assign_numbers(waiters: &mut [Self]) -> Result<()> {
        let Some(first) = waiters.first() else { return Ok(()) };
        let marks = waiters.iter().map(Self::mark).collect::<Result<Vec<_>>>()?;
        let assigned =
            first.claims.send(&marks.into_iter().fold(Commit::new(), Commit::write)).await?;
        let assigned = assigned.committed().map(|committed| committed.writes).unwrap_or_default();
        for (at, waiter) in waiters.iter_mut().enumerate() {
            waiter.number = assigned.get(at).and_then(|written| written.revision);
        }
        Ok(())
    }

    /// Whether the slot was lost, according to this conflict.
    pub(in super::super) fn has_lost_slot(&self, conflict: &Conflict) -> bool {
        self.slot.as_ref().is_some_and(|slot| found(conflict, &slot.record).is_some())
    }

    /// Returns the number, assigned once.
    async fn number(&mut self) -> Result<Revision> {
        if self.number.is_none() {
            Self::assign_numbers(std::slice::from_mut(self)).await?;
        }
        self.number.ok_or_else(|| StoreError::corrupt("a write without expectations was refused"))
    }

    /// Builds the write of the mark that the lock has waiters.
    fn mark(&self) -> Result<RecordWrite> {
        let write =
            RecordWrite::put(&self.mark, ExpectedRevision::Any, RawJson::new(&self.claims.by)?);
        Ok(write.expiring(When::In(SLOT_LEASE)))
    }

    /// Takes a slot if one is free, and renews it.
    async fn renew_slot(&mut self, number: Revision) -> Result<()> {
        match &self.slot {
            Some(slot) if slot.kept.elapsed() < SLOT_LEASE / 3 => return Ok(()),
            Some(slot) => {
                let (record, expected) =
                    (slot.record.clone(), ExpectedRevision::Revision(slot.revision));
                self.slot = self.write_slot(&record, expected, number).await?;
            }
            None => {}
        }
        while self.slot.is_none() {
            let Some(free) = self.free_slot().await? else { break };
            self.slot = self.write_slot(&free, ExpectedRevision::Absent, number).await?;
        }
        Ok(())
    }

    async fn write_slot(
        &self,
        record: &RecordKey,
        expected: ExpectedRevision,
        number: Revision,
    ) -> Result<Option<QueueSlot>> {
        let content = RawJson::new(&SlotRecord { number, by: self.claims.by.clone() })?;
        let write = RecordWrite::put(record, expected, content).expiring(When::In(SLOT_LEASE));
        let kept = Instant::now();
        let outcome = self.claims.send(&Commit::new().write(write).write(self.mark()?)).await?;
        let CommitOutcome::Committed(committed) = outcome else { return Ok(None) };
        let revision = committed.writes.first().and_then(|written| written.revision);
        Ok(revision.map(|revision| QueueSlot { record: record.clone(), revision, kept }))
    }

    /// Returns a random slot among the first free ones, so that concurrent waiters rarely collide.
    async fn free_slot(&self) -> Result<Option<RecordKey>> {
        let waiters = self.waiters().await?;
        let records = (0..CAPACITY)
            .map(|slot| keys::queue_slot(&self.key, slot))
            .collect::<Result<Vec<_>>>()?;
        let is_free = |record: &&RecordKey| !waiters.iter().any(|(other, _)| other.key == **record);
        let free: Vec<_> = records.iter().filter(is_free).take(waiters.len() + 4).collect();
        Ok(fastrand::choice(free).cloned())
    }

    async fn waiters(&self) -> Result<Vec<(Record, SlotRecord)>> {
        let query = RecordQuery::prefix(keys::queue_slots(&self.key)).limit(CAPACITY);
        let records = self.claims.store().rows(query).all().await?;
        let read = |record: Record| record.value.to().map(|slot| (record, slot));
        records.into_iter().map(read).collect()
    }
}

impl QueueSlot {
    fn release(&self) -> Commit {
        let mine = ExpectedRevision::Revision(self.revision);
        Commit::new().write(RecordWrite::delete(&self.record, mine))
    }
}

impl Drop for Waiter {
    /// A cancelled waiter releases its slot, so that those behind need not wait for its expiry.
    fn drop(&mut self) {
        let (Some(slot), Ok(runtime)) = (self.slot.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let store = self.claims.store().clone();
        runtime.spawn(async move {
            let _left_or_expires = Store::commit(&*store, slot.release()).await;
        });
    }
}
