//! Singleton: one of a kind for a scope, and for a period; whoever comes too late learns who was
//! first, and when.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordWrite, StoreError, Timestamp, When, WorkerName,
};

use super::acquire::{Acquire, Bidding, bid};
use super::claim_attempt::{ClaimAttempt, ClaimStatus, Contender};
use super::entry::Entry;
use super::held_claim::{HeldClaim, Holding};
use super::operation::NotYet;
use super::{ClaimError, ClaimGuard, ClaimKey, Claims, OnFailure, Period, keys, term};
use crate::telemetry;

/// How long one who has died before it was done keeps others out, unless something else is asked
/// for.
const LEASE: Duration = Duration::from_secs(30);

/// The right to be the only one.
#[derive(Debug, Clone)]
#[must_use = "nothing is claimed until `claim` or `take` is called"]
pub struct Singleton {
    claims: Claims,
    key: ClaimKey,
    period: Period,
    zone: TimeZone,
    lease: Duration,
    ttl: Option<Duration>,
}

/// What came of claiming to be the only one.
#[derive(Debug)]
pub enum SingletonOutcome<W> {
    /// It is yours.
    Won(W),
    /// Somebody was first.
    Taken(SingletonTaken),
}

/// Somebody who was first.
#[derive(Debug, Clone, thiserror::Error)]
#[error("claim {key:?}: {by:?} was first{}", when(.at.as_ref()))]
pub struct SingletonTaken {
    /// Which claim.
    pub key: ClaimKey,
    /// Who.
    pub by: WorkerName,
    /// When, by the store's clock.
    pub at: Option<Timestamp>,
    /// Set while it is still being done: until when, unless they ask for longer.
    pub until: Option<Timestamp>,
    details: Option<RawJson>,
}

fn when(at: Option<&Timestamp>) -> String {
    at.map_or_else(String::new, |at| format!(", at {at}"))
}

impl SingletonTaken {
    /// What the winner left; nothing while it is still being done.
    ///
    /// # Errors
    /// `Unreadable` if it is not a `T`.
    pub fn details<T: DeserializeOwned>(&self) -> Result<Option<T>, ClaimError> {
        let read = self.details.as_ref().map(RawJson::to).transpose();
        read.map_err(|source| ClaimError::Unreadable { key: self.key.clone(), source })
    }

    fn rival(key: &ClaimKey, rival: Contender) -> Self {
        Self {
            key: key.clone(),
            by: rival.entry.by,
            at: rival.since,
            until: rival.until,
            details: None,
        }
    }

    fn entry(key: &ClaimKey, entry: Entry) -> Self {
        Self { key: key.clone(), by: entry.by, at: entry.at, until: None, details: entry.value }
    }
}

impl Singleton {
    pub(super) fn new(claims: Claims, name: &impl fmt::Display) -> Self {
        Self {
            claims,
            key: ClaimKey::new(keys::SINGLETON, name),
            period: Period::Ever,
            zone: TimeZone::UTC,
            lease: LEASE,
            ttl: None,
        }
    }

    /// One for each of these: a child, an item.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.key = self.key.part(&scope);
        self
    }

    /// One for each of these stretches of time; one for ever unless this says otherwise. The
    /// stretch is that of the store's clock when the claim begins.
    pub fn per(mut self, period: Period) -> Self {
        self.period = period;
        self
    }

    /// Days and hours are those of this zone; UTC unless this says otherwise.
    pub fn zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// How long one who has died before it was done keeps others out; half a minute unless this
    /// says otherwise.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long it is remembered: by default until its period is over, and indefinitely if it
    /// has none.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Claims it while something is being done: complete it then, with what others are to learn.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name cannot be one.
    pub async fn claim<T: DeserializeOwned>(
        &self,
    ) -> Result<SingletonOutcome<ClaimGuard<T>>, ClaimError> {
        let mut stake = self.stake(self.claims.store().now().await?)?;
        let bidding =
            bid(&self.claims, &mut [&mut stake as &mut dyn Acquire], Commit::new()).await?;
        Ok(match self.outcome(&mut stake, bidding) {
            SingletonOutcome::Won(hold) => {
                let holding = Holding::keep(&self.claims, hold);
                SingletonOutcome::Won(ClaimGuard::new(holding, OnFailure::Release))
            }
            SingletonOutcome::Taken(winner) => SingletonOutcome::Taken(winner),
        })
    }

    /// Takes it at once, with what others are to learn, and together with the rest of a commit: all
    /// of it lands, or none.
    ///
    /// # Errors
    /// `Refused` if some part of the commit does not hold.
    pub async fn take(
        &self,
        details: &(impl Serialize + ?Sized),
        with: Commit,
    ) -> Result<SingletonOutcome<()>, ClaimError> {
        let now = self.claims.store().now().await?;
        let entry = self.taken(details, now)?;
        let mut stake = ClaimAttempt::new(self.key_at(now)?, entry, None)?.with_ttl(self.life())?;
        let mut not_yet = self.not_yet()?;
        let mut bids: Vec<&mut dyn Acquire> = vec![&mut stake];
        bids.extend(not_yet.as_mut().map(|not_yet| not_yet as &mut dyn Acquire));
        let bidding = bid(&self.claims, &mut bids, with).await?;
        // It may have been in another period, whoever has taken this one.
        if not_yet.is_some_and(|not_yet| not_yet.was_done) {
            telemetry::claimed(&self.key, &self.claims.by, "won");
            return Ok(SingletonOutcome::Won(()));
        }
        Ok(match self.outcome(&mut stake, bidding) {
            SingletonOutcome::Won(_) => SingletonOutcome::Won(()),
            SingletonOutcome::Taken(winner) => SingletonOutcome::Taken(winner),
        })
    }

    /// The part of a commit that takes it, for a commit that somebody else makes: a reaction's,
    /// say. That commit is refused if somebody was first.
    ///
    /// # Errors
    /// `Store` if the store fails, or the details cannot be stored.
    pub async fn part(
        &self,
        details: &(impl Serialize + ?Sized),
    ) -> Result<RecordWrite, ClaimError> {
        let now = self.claims.store().now().await?;
        let key = self.key_at(now)?;
        term::check_ttl(&key, self.life())?;
        let record = keys::record(&key)?;
        let write =
            RecordWrite::put(&record, ExpectedRevision::Absent, self.taken(details, now)?.json()?);
        Ok(match self.life() {
            Some(ttl) => write.expiring(When::In(ttl)),
            None => write,
        })
    }

    /// The parts of a commit that take it; or who has it now.
    pub(crate) async fn propose(
        &self,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Result<Commit, SingletonTaken>, ClaimError> {
        let now = self.claims.store().now().await?;
        let key = self.key_at(now)?;
        let (record, lease) = (keys::record(&key)?, keys::lease(&key)?);
        let slots = self.claims.store().get(&[record.clone(), lease.clone()]).await?;
        let commit = match (slots[0].live(), slots[1].live()) {
            (None, _) => Commit::new().write(self.part(details).await?),
            (Some(there), lease_there) => {
                let entry = Entry::read(there)?;
                match lease_there {
                    _ if !entry.is_pending() => return Ok(Err(SingletonTaken::entry(&key, entry))),
                    Some(lease) => {
                        let rival = Contender::new(entry, lease);
                        return Ok(Err(SingletonTaken::rival(&key, rival)));
                    }
                    // Its claimant has died: it can be taken over.
                    None => {
                        let expected = ExpectedRevision::Revision(there.revision);
                        let write = RecordWrite { expected, ..self.part(details).await? };
                        Commit::new().write(write).guard_record(&lease, ExpectedRevision::Absent)
                    }
                }
            }
        };
        Ok(Ok(commit))
    }

    pub(super) fn stake(&self, now: Timestamp) -> Result<ClaimAttempt, StoreError> {
        let entry = Entry::pending(&self.claims, None);
        ClaimAttempt::new(self.key_at(now)?, entry, self.lease)?.with_ttl(self.life())
    }

    fn taken(
        &self,
        details: &(impl Serialize + ?Sized),
        now: Timestamp,
    ) -> Result<Entry, StoreError> {
        Ok(Entry::pending(&self.claims, None).done(RawJson::new(details)?, now))
    }

    /// The condition that it was not taken under the same operation, in whichever period.
    fn not_yet(&self) -> Result<Option<NotYet>, StoreError> {
        self.claims
            .operation
            .as_ref()
            .map(|operation| NotYet::new(operation, &self.key))
            .transpose()
    }

    /// The whole name of the claim at this moment.
    fn key_at(&self, now: Timestamp) -> Result<ClaimKey, StoreError> {
        let stretch = self.period.at(now, &self.zone)?;
        Ok(match self.period.named(&self.zone) {
            Some(period) if stretch.label.is_empty() => self.key.clone().per(&period),
            Some(period) => self.key.clone().per(&period).part(&stretch.label),
            None => self.key.clone(),
        })
    }

    /// How long it is remembered: a stretch that begins when it is taken has nothing else to end
    /// by.
    fn life(&self) -> Option<Duration> {
        match self.period {
            Period::Every(long) => Some(self.ttl.unwrap_or(long)),
            _ => self.ttl,
        }
    }

    fn outcome(&self, stake: &mut ClaimAttempt, bidding: Bidding) -> SingletonOutcome<HeldClaim> {
        let (name, single) = match (stake.standing(), bidding) {
            (ClaimStatus::Won(revision), Bidding::Won(at)) => {
                ("won", SingletonOutcome::Won(HeldClaim::new(stake, revision, at)))
            }
            (ClaimStatus::Won(_), Bidding::Refused) => unreachable!("what was refused was not won"),
            (ClaimStatus::Held(rival), _) => {
                telemetry::claim_contended(&stake.key, &self.claims.by, rival.by(), 1);
                ("held", SingletonOutcome::Taken(SingletonTaken::rival(&stake.key, *rival)))
            }
            (ClaimStatus::Over(entry), _) => {
                ("taken", SingletonOutcome::Taken(SingletonTaken::entry(&stake.key, *entry)))
            }
        };
        telemetry::claimed(&stake.key, &self.claims.by, name);
        single
    }
}
