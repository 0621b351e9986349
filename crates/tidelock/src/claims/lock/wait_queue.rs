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
pub(super) const PLACES: usize = 256;
/// Lease of a queue slot.
const KEPT: Duration = Duration::from_secs(3);

/// Condition that a lock has no waiters.
#[derive(Debug)]
pub(in super::super) struct NobodyWaits {
    pub(in super::super) key: ClaimKey,
    line: RecordKey,
    /// Whether the condition failed.
    pub(in super::super) met: bool,
}

impl NobodyWaits {
    pub(in super::super) fn new(key: &ClaimKey) -> Result<Self> {
        Ok(Self { key: key.clone(), line: keys::line(key)?, met: false })
    }
}

impl Acquire for NobodyWaits {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.guard_record(&self.line, ExpectedRevision::Absent))
    }

    fn is_witness(&self) -> bool {
        false
    }

    fn won(&mut self, _: &Committed) -> Result<()> {
        Ok(())
    }

    fn learn(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        self.met = found(conflict, &self.line).is_some();
        Ok(if self.met { ConflictVerdict::Refused } else { ConflictVerdict::Nothing })
    }
}

/// Content of a queue slot.
#[derive(Debug, Serialize, Deserialize)]
struct Standing {
    number: Revision,
    by: WorkerName,
}

/// A waiter in the queue.
#[derive(Debug)]
pub(in super::super) struct Line {
    claims: Claims,
    pub(in super::super) key: ClaimKey,
    line: RecordKey,
    number: Option<Revision>,
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    record: RecordKey,
    revision: Revision,
    kept: Instant,
}

/// Position of a waiter.
pub(in super::super) enum Turn {
    /// First; this commit leaves the queue.
    First(Commit),
    /// Behind another waiter.
    Behind(Ahead),
}

/// The next waiter ahead.
pub(in super::super) struct Ahead {
    pub(in super::super) by: WorkerName,
    pub(in super::super) place: RecordKey,
}

impl Line {
    pub(in super::super) fn new(claims: &Claims, key: &ClaimKey) -> Result<Self> {
        Ok(Self {
            claims: claims.clone(),
            key: key.clone(),
            line: keys::line(key)?,
            number: None,
            place: None,
        })
    }

    /// Returns the first waiter, if any.
    pub(in super::super) async fn first(&self) -> Result<Option<WorkerName>> {
        let first = self.standing().await?.into_iter().min_by_key(|(_, standing)| standing.number);
        Ok(first.map(|(_, standing)| standing.by))
    }

    /// Takes or renews a slot and returns the position.
    pub(in super::super) async fn turn(&mut self) -> Result<Turn> {
        let number = self.number().await?;
        self.keep(number).await?;
        let standing = self.standing().await?;
        let ahead = standing.iter().filter(|(_, other)| other.number < number);
        if let Some((record, ahead)) = ahead.max_by_key(|(_, other)| other.number) {
            return Ok(Turn::Behind(Ahead { by: ahead.by.clone(), place: record.key.clone() }));
        }
        if self.place.is_none() {
            // The queue is full; wait for the last entry.
            if let Some((record, last)) = standing.iter().max_by_key(|(_, other)| other.number) {
                return Ok(Turn::Behind(Ahead { by: last.by.clone(), place: record.key.clone() }));
            }
        }
        Ok(Turn::First(self.place.as_ref().map_or_else(Commit::new, Place::give_up)))
    }

    /// The slot was released in a commit that succeeded.
    pub(in super::super) fn left(&mut self) {
        self.place = None;
    }

    /// Leaves the queue.
    pub(in super::super) async fn leave(mut self) -> Result<()> {
        if let Some(place) = self.place.take() {
            // If the slot expired, there is nothing to release.
            let _left = self.claims.send(&place.give_up()).await?;
        }
        Ok(())
    }

    /// Assigns the numbers of several queues in one commit. A later caller is behind in every queue
    /// that both are in, so two callers never wait for each other.
    pub(in super::super) async fn draw(lines: &mut [Self]) -> Result<()> {
        let Some(first) = lines.first() else { return Ok(()) };
        let signs = lines.iter().map(Self::sign).collect::<Result<Vec<_>>>()?;
        let drawn =
            first.claims.send(&signs.into_iter().fold(Commit::new(), Commit::write)).await?;
        let drawn = drawn.committed().map(|committed| committed.writes).unwrap_or_default();
        for (at, line) in lines.iter_mut().enumerate() {
            line.number = drawn.get(at).and_then(|written| written.revision);
        }
        Ok(())
    }

    /// Whether the slot was lost, according to this conflict.
    pub(in super::super) fn has_lost(&self, conflict: &Conflict) -> bool {
        self.place.as_ref().is_some_and(|place| found(conflict, &place.record).is_some())
    }

    /// Returns the number, assigned once.
    async fn number(&mut self) -> Result<Revision> {
        if self.number.is_none() {
            Self::draw(std::slice::from_mut(self)).await?;
        }
        self.number.ok_or_else(|| StoreError::corrupt("a write without expectations was refused"))
    }

    /// Builds the write of the mark that the lock has waiters.
    fn sign(&self) -> Result<RecordWrite> {
        let write =
            RecordWrite::put(&self.line, ExpectedRevision::Any, RawJson::new(&self.claims.by)?);
        Ok(write.expiring(When::In(KEPT)))
    }

    /// Takes a slot if one is free, and renews it.
    async fn keep(&mut self, number: Revision) -> Result<()> {
        match &self.place {
            Some(place) if place.kept.elapsed() < KEPT / 3 => return Ok(()),
            Some(place) => {
                let (record, expected) =
                    (place.record.clone(), ExpectedRevision::Revision(place.revision));
                self.place = self.stand(&record, expected, number).await?;
            }
            None => {}
        }
        while self.place.is_none() {
            let Some(free) = self.free().await? else { break };
            self.place = self.stand(&free, ExpectedRevision::Absent, number).await?;
        }
        Ok(())
    }

    async fn stand(
        &self,
        record: &RecordKey,
        expected: ExpectedRevision,
        number: Revision,
    ) -> Result<Option<Place>> {
        let standing = RawJson::new(&Standing { number, by: self.claims.by.clone() })?;
        let write = RecordWrite::put(record, expected, standing).expiring(When::In(KEPT));
        let kept = Instant::now();
        let outcome = self.claims.send(&Commit::new().write(write).write(self.sign()?)).await?;
        let CommitOutcome::Committed(committed) = outcome else { return Ok(None) };
        let revision = committed.writes.first().and_then(|written| written.revision);
        Ok(revision.map(|revision| Place { record: record.clone(), revision, kept }))
    }

    /// Returns a random slot among the first free ones, so that concurrent waiters rarely collide.
    async fn free(&self) -> Result<Option<RecordKey>> {
        let standing = self.standing().await?;
        let records =
            (0..PLACES).map(|place| keys::place(&self.key, place)).collect::<Result<Vec<_>>>()?;
        let is_free =
            |record: &&RecordKey| !standing.iter().any(|(other, _)| other.key == **record);
        let free: Vec<_> = records.iter().filter(is_free).take(standing.len() + 4).collect();
        Ok(fastrand::choice(free).cloned())
    }

    async fn standing(&self) -> Result<Vec<(Record, Standing)>> {
        let query = RecordQuery::prefix(keys::places(&self.key)).limit(PLACES);
        let records = self.claims.store().rows(query).all().await?;
        let read = |record: Record| record.value.to().map(|standing| (record, standing));
        records.into_iter().map(read).collect()
    }
}

impl Place {
    fn give_up(&self) -> Commit {
        let mine = ExpectedRevision::Revision(self.revision);
        Commit::new().write(RecordWrite::delete(&self.record, mine))
    }
}

impl Drop for Line {
    /// A cancelled waiter releases its slot, so that those behind need not wait for its expiry.
    fn drop(&mut self) {
        let (Some(place), Ok(runtime)) = (self.place.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let store = self.claims.store().clone();
        runtime.spawn(async move {
            let _left_or_expires = Store::commit(&*store, place.give_up()).await;
        });
    }
}
