//! Singletons: one winner per scope and period; later claimants learn who was first, and when.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, ExpectedRevision, Guard, RawJson, RecordWrite, StoreError, Timestamp, When, WorkerName,
};

use super::acquire::{Acquire, AcquireOutcome, acquire};
use super::claim_attempt::{ClaimAttempt, ClaimStatus, Contender};
use super::claim_set::{ClaimSet, Hold};
use super::entry::Entry;
use super::held_claim::WorkKind;
use super::operation::NotExecuted;
use super::{ClaimError, ClaimGuard, ClaimKey, Claims, OnFailure, Period, keys, lease_term};
use crate::handle::Tidelock;
use crate::outcome::Outcome;
use crate::telemetry;

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

/// The least time for which one is remembered that is taken as its period ends.
const MIN_LIFE: Duration = Duration::from_millis(1);

/// A singleton claim with its options.
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

/// The claimant that was first.
#[derive(Debug, Clone, thiserror::Error)]
#[error("claim {key:?}: {by:?} was first{}", when(.at.as_ref()))]
pub struct SingletonTaken {
    /// The claim.
    pub key: ClaimKey,
    /// The winner.
    pub by: WorkerName,
    /// When it was acquired, by the store's clock.
    pub at: Option<Timestamp>,
    /// Set while the work is in progress: when the lease expires, unless it is renewed.
    pub until: Option<Timestamp>,
    details: Option<RawJson>,
}

fn when(at: Option<&Timestamp>) -> String {
    at.map_or_else(String::new, |at| format!(", at {at}"))
}

impl SingletonTaken {
    /// Returns the winner's details; `None` while the work is in progress.
    ///
    /// # Errors
    /// `Unreadable` if they are not a `T`.
    pub fn details<T: DeserializeOwned>(&self) -> Result<Option<T>, ClaimError> {
        let read = self.details.as_ref().map(RawJson::to).transpose();
        read.map_err(|source| ClaimError::Unreadable { key: self.key.clone(), source })
    }

    fn by_contender(key: &ClaimKey, contender: Contender) -> Self {
        Self {
            key: key.clone(),
            by: contender.entry.by,
            at: contender.since,
            until: contender.until,
            details: None,
        }
    }

    fn entry(key: &ClaimKey, entry: Entry) -> Self {
        Self { key: key.clone(), by: entry.by, at: entry.at, until: None, details: entry.value }
    }
}

impl Singleton {
    pub(super) fn new(claims: Claims, name: &str) -> Self {
        Self {
            claims,
            key: ClaimKey::new(keys::SINGLETON, &name),
            period: Period::Ever,
            zone: TimeZone::UTC,
            lease: LEASE,
            ttl: None,
        }
    }

    /// Narrows the singleton to a scope, such as a child or an item: one winner per scope.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.key = self.key.part(&scope);
        self
    }

    /// Sets the period: one winner per period, by the store's clock when the claim begins.
    ///
    /// By default there is one winner ever.
    pub fn per(mut self, period: Period) -> Self {
        self.period = period;
        self
    }

    /// Sets the time zone of calendar periods. The default is UTC.
    pub fn zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Sets the lease: how long the claim stays held after its claimant died before completion.
    ///
    /// The default is 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long the winner is remembered.
    ///
    /// The default is until its period is over, and indefinitely without a period.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Claims it for work in progress: complete it with the details for later claimants.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name is invalid.
    pub async fn claim<T: DeserializeOwned>(
        &self,
    ) -> Result<Outcome<ClaimGuard<T>, SingletonTaken>, ClaimError> {
        let mut attempt = self.attempt(self.claims.store().now().await?)?;
        let outcome =
            acquire(&self.claims, &mut [&mut attempt as &mut dyn Acquire], Commit::new()).await?;
        Ok(self.outcome(&mut attempt, outcome).map(|held| {
            ClaimGuard::new(
                ClaimSet::renewing(&self.claims, held),
                WorkKind::new(OnFailure::Release),
            )
        }))
    }

    /// Claims and completes it in one commit, with details for later claimants.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name is invalid.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let report = tidelock.singleton("report").of("acme").per(Period::Day);
    /// assert!(report.take("ada").await?.is_granted());
    ///
    /// let Outcome::Refused(first) = report.take("bob").await? else {
    ///     panic!("there is one report a day");
    /// };
    /// assert_eq!(first.details::<String>()?.as_deref(), Some("ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(
        &self,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Outcome<(), SingletonTaken>, ClaimError> {
        self.take_with(details, Commit::new()).await
    }

    /// Takes it in one commit with other parts, all or none.
    ///
    /// # Errors
    /// `Refused` if a part of the commit is rejected; `Store` if the store fails, or a name is
    /// invalid.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// # use serde_json::json;
    /// let given = event("sample.given", json!({ "tea": "assam" }));
    /// let with = tidelock.commit().append("samples", ExpectedVersion::Any, given).build()?;
    /// let sample = tidelock.singleton("sample").of("ada");
    /// sample.take_with("assam", with).await?.granted()?; // the event with it, or neither
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_with(
        &self,
        details: &(impl Serialize + ?Sized),
        with: Commit,
    ) -> Result<Outcome<(), SingletonTaken>, ClaimError> {
        let now = self.claims.store().now().await?;
        let entry = self.taken(details, now)?;
        let mut attempt =
            ClaimAttempt::new(self.key_at(now)?, entry, None)?.with_ttl(self.life(now)?)?;
        let mut not_executed = self.not_executed()?;
        let mut requests: Vec<&mut dyn Acquire> = vec![&mut attempt];
        requests.extend(not_executed.as_mut().map(|not_executed| not_executed as &mut dyn Acquire));
        let outcome = acquire(&self.claims, &mut requests, with).await?;
        // The operation may have won in another period, no matter which claimant has this one.
        if not_executed.is_some_and(|not_executed| not_executed.was_done) {
            telemetry::claimed(&self.key, &self.claims.by, "won");
            return Ok(Outcome::Granted(()));
        }
        Ok(self.outcome(&mut attempt, outcome).map(drop))
    }

    /// Returns the part of a commit that takes it, for a commit made elsewhere, such as a
    /// reaction's.
    ///
    /// That commit conflicts if another claimant was first.
    ///
    /// # Errors
    /// `Store` if the store fails, or the details cannot be stored.
    pub async fn part(
        &self,
        details: &(impl Serialize + ?Sized),
    ) -> Result<RecordWrite, ClaimError> {
        self.claims.check()?;
        Ok(self.part_at(details, self.claims.store().now().await?)?)
    }

    fn part_at(
        &self,
        details: &(impl Serialize + ?Sized),
        now: Timestamp,
    ) -> Result<RecordWrite, StoreError> {
        let key = self.key_at(now)?;
        let life = self.life(now)?;
        lease_term::check_ttl(&key, life)?;
        let record = keys::record(&key)?;
        let write =
            RecordWrite::put(&record, ExpectedRevision::Absent, self.taken(details, now)?.json()?);
        Ok(match life {
            Some(ttl) => write.expiring(When::In(ttl)),
            None => write,
        })
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.claims.tidelock
    }

    /// Returns the parts of a commit that take it, with the write of its record first; or its
    /// holder, with guards on what this rests on.
    pub(crate) async fn propose(
        &self,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Outcome<Commit, (SingletonTaken, Vec<Guard>)>, ClaimError> {
        self.claims.refuse_operation()?;
        let now = self.claims.store().now().await?;
        let (key, write) = (self.key_at(now)?, self.part_at(details, now)?);
        let lease = keys::lease(&key)?;
        let slots = self.claims.store().get(&[write.key.clone(), lease.clone()]).await?;
        let Some(there) = slots[0].live() else {
            return Ok(Outcome::Granted(Commit::new().write(write)));
        };
        let entry = Entry::read(there)?;
        let same = Guard::Record {
            key: there.key.clone(),
            expected: ExpectedRevision::Revision(there.revision),
        };
        Ok(match slots[1].live() {
            _ if !entry.is_pending() => {
                Outcome::Refused((SingletonTaken::entry(&key, entry), vec![same]))
            }
            Some(lease) => {
                let taken = SingletonTaken::by_contender(&key, Contender::new(entry, lease));
                let held =
                    Guard::Record { key: lease.key.clone(), expected: ExpectedRevision::Exists };
                Outcome::Refused((taken, vec![same, held]))
            }
            // The lease of its holder has expired, so it can be taken over.
            None => {
                let expected = ExpectedRevision::Revision(there.revision);
                let commit = Commit::new().write(RecordWrite { expected, ..write });
                Outcome::Granted(commit.guard_record(&lease, ExpectedRevision::Absent))
            }
        })
    }

    pub(super) fn attempt(&self, now: Timestamp) -> Result<ClaimAttempt, StoreError> {
        let entry = Entry::pending(&self.claims, None);
        ClaimAttempt::new(self.key_at(now)?, entry, self.lease)?.with_ttl(self.life(now)?)
    }

    fn taken(
        &self,
        details: &(impl Serialize + ?Sized),
        now: Timestamp,
    ) -> Result<Entry, StoreError> {
        Ok(Entry::pending(&self.claims, None).done(RawJson::new(details)?, now))
    }

    /// Condition that it was not taken under the same operation id, in any period.
    fn not_executed(&self) -> Result<Option<NotExecuted>, StoreError> {
        self.claims
            .operation
            .as_ref()
            .map(|operation| NotExecuted::new(operation, &self.key))
            .transpose()
    }

    /// Returns the claim's name at this time.
    fn key_at(&self, now: Timestamp) -> Result<ClaimKey, StoreError> {
        let occurrence = self.period.at(now, &self.zone)?;
        Ok(match self.period.named(&self.zone) {
            Some(period) if occurrence.label.is_empty() => self.key.clone().per(&period),
            Some(period) => self.key.clone().per(&period).part(&occurrence.label),
            None => self.key.clone(),
        })
    }

    /// Returns how long it is remembered: until its period is over, by default.
    fn life(&self, now: Timestamp) -> Result<Option<Duration>, StoreError> {
        if self.ttl.is_some() {
            return Ok(self.ttl);
        }
        let end = self.period.at(now, &self.zone)?.end;
        Ok(end.map(|end| end.resolve(now).since(now).max(MIN_LIFE)))
    }

    fn outcome(
        &self,
        attempt: &mut ClaimAttempt,
        outcome: AcquireOutcome,
    ) -> Outcome<Hold, SingletonTaken> {
        let (name, single) = match (attempt.status(), outcome) {
            (ClaimStatus::Won(revision), AcquireOutcome::Won(at)) => {
                ("won", Outcome::Granted(Hold::new(attempt, revision, at)))
            }
            (ClaimStatus::Won(_), AcquireOutcome::Refused) => {
                unreachable!("what was refused was not won")
            }
            (ClaimStatus::Held(contender), _) => {
                telemetry::claim_contended(&attempt.key, &self.claims.by, contender.by(), 1);
                ("held", Outcome::Refused(SingletonTaken::by_contender(&attempt.key, *contender)))
            }
            (ClaimStatus::Over(entry), _) => {
                ("taken", Outcome::Refused(SingletonTaken::entry(&attempt.key, *entry)))
            }
        };
        telemetry::claimed(&attempt.key, &self.claims.by, name);
        single
    }
}
