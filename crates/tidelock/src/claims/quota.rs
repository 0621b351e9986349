//! Quotas: a limit of units per scope and period.
//!
//! The units taken are a counter that the store increments within a bound, in the same commit that
//! checks that the window is open. The window is a record that expires when its period is over, so
//! the store's clock decides which window is debited, at the time of the commit. The record's
//! revision identifies the window, so that a refund goes to the window it was taken from.

mod booking;
mod crediting;
mod debit;
mod grant;
mod ledger;
mod outcome;
mod pledge;
mod reservation;
mod window;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, Guard, RawJson, RecordKey, RecordWrite, Slot,
    StoreError,
};

use super::acquire::{Acquire, AcquireOutcome, acquire};
use super::{ClaimError, ClaimKey, Claims, Period, keys, lease_term};
use crate::handle::Tidelock;
use crate::outcome::Outcome;
use crate::staging::Landing;
use crate::telemetry;

use booking::Booking;
use debit::DebitRefusal;
use window::Secret;

pub(super) use crediting::taken;
pub(super) use debit::Debit;
pub(super) use ledger::shared_end;
pub(super) use pledge::{Pledge, View};
pub(super) use window::Window;

pub use grant::{Grant, RefundOutcome};
pub use outcome::{QuotaExceeded, QuotaUsage};
pub use reservation::{Reservation, ReservationToken};

/// Number of attempts while windows end or reservations expire.
const ATTEMPTS: u32 = 32;

/// A quota with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing is taken until `take` or `reserve` is called"]
pub struct Quota {
    claims: Claims,
    name: ClaimKey,
    limit: i64,
    period: Period,
    zone: TimeZone,
    /// The last known open window. A guess that every commit verifies.
    cached_window: Arc<Mutex<Option<Window>>>,
}

impl Quota {
    pub(super) fn new(claims: Claims, name: &str, limit: i64) -> Self {
        let name = ClaimKey::new(keys::QUOTA, &name);
        Self {
            claims,
            name,
            limit,
            period: Period::Ever,
            zone: TimeZone::UTC,
            cached_window: Arc::default(),
        }
    }

    /// Narrows the quota to a scope: each scope has its own units.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.name = self.name.part(&scope);
        self.uncached()
    }

    /// Sets the period after which the quota resets. By default it never does.
    pub fn per(mut self, period: Period) -> Self {
        self.period = period;
        self.uncached()
    }

    /// Sets the time zone of calendar periods. The default is UTC.
    pub fn zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self.uncached()
    }

    /// Returns the quota's name.
    pub fn key(&self) -> ClaimKey {
        match self.period.named(&self.zone) {
            None => self.name.clone(),
            Some(period) => self.name.clone().per(&period),
        }
    }

    /// Takes units if enough are left: checked and added by the store, in one commit.
    ///
    /// # Errors
    /// `Store` if the store fails, or the name is invalid.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    /// use tidelock::claims::Period;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let exports = tidelock.claims().quota("exports", 3).of("acme").per(Period::Day);
    /// let grant = exports.take(2).await?.granted()?;
    /// assert!(!exports.take(2).await?.is_granted());
    ///
    /// exports.refund(&grant).await?;
    /// assert_eq!(exports.usage().await?.used, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, units: u32) -> Result<Outcome<Grant, QuotaExceeded>, ClaimError> {
        self.take_with(units, Commit::new()).await
    }

    /// Takes units together with the parts of a commit, all or none.
    ///
    /// # Errors
    /// As [`take`](Self::take); and `Refused` if a part of the commit is rejected.
    pub async fn take_with(
        &self,
        units: u32,
        with: Commit,
    ) -> Result<Outcome<Grant, QuotaExceeded>, ClaimError> {
        let taken = self.take_units(units, None, with).await?;
        Ok(self.report(taken.map(|debit| debit.grant())))
    }

    /// Reserves units: they go back automatically after `life`, unless the reservation is
    /// confirmed.
    ///
    /// While many reservations exist, up to a 64th of that later; [`Reservation::until`] returns
    /// the exact time.
    ///
    /// # Errors
    /// As [`take`](Self::take); and `Settled` if it was reserved before under the same [operation
    /// id](Claims::operation_id), and has been confirmed, refunded or expired since.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.claims().quota("seats", 5);
    /// let held = seats.reserve(2, Duration::from_secs(600)).await?.granted()?;
    /// let given_up = seats.reserve(1, Duration::from_secs(600)).await?.granted()?;
    ///
    /// held.confirm().await?;
    /// given_up.refund().await?;
    /// assert_eq!(seats.usage().await?.used, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(
        &self,
        units: u32,
        life: Duration,
    ) -> Result<Outcome<Reservation, QuotaExceeded>, ClaimError> {
        lease_term::check(&self.key(), "life", life)?;
        let reserved = match self.take_units(units, Some(life), Commit::new()).await? {
            Ok(debit) => Ok(Reservation::of(self.clone(), debit).await?),
            Err(exceeded) => Err(exceeded),
        };
        Ok(self.report(reserved))
    }

    /// Continues a reservation by its token.
    ///
    /// # Errors
    /// `Store` if the token belongs to another quota.
    pub fn attach(&self, token: &ReservationToken) -> Result<Reservation, ClaimError> {
        token.grant.belongs_to(&self.key())?;
        Ok(Reservation::resumed(self.clone(), token)?)
    }

    /// Refunds a grant, once, to the window it was taken from.
    ///
    /// # Errors
    /// `Store` if the store fails, or the grant belongs to another quota.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.quota("seats", 5);
    /// let grant = seats.take(3).await?.granted()?;
    /// seats.refund(&grant).await?;
    /// assert_eq!(seats.usage().await?.used, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refund(&self, grant: &Grant) -> Result<RefundOutcome, ClaimError> {
        grant.refund(self).await
    }

    /// Returns the units taken.
    ///
    /// # Errors
    /// `Store` if the store fails.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.quota("seats", 5);
    /// seats.take(3).await?.granted()?;
    /// let usage = seats.usage().await?;
    /// assert_eq!((usage.used, usage.limit), (3, 5));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn usage(&self) -> Result<QuotaUsage, ClaimError> {
        self.check()?;
        let taken = taken(&**self.claims.store(), self.key().as_str()).await?;
        let (used, resets_at) = taken.map_or((0, None), |(used, window)| (used, window.end));
        Ok(QuotaUsage { used, limit: self.limit, resets_at })
    }

    async fn take_units(
        &self,
        units: u32,
        life: Option<Duration>,
        with: Commit,
    ) -> Result<Result<Debit, QuotaExceeded>, ClaimError> {
        let mut debit = self.debit(units).await?;
        if let Some(life) = life {
            debit.booking = Some(Booking::lasting(self, debit.window, life, false).await?);
        }
        for _ in 0..ATTEMPTS {
            let acquired =
                acquire(&self.claims, &mut [&mut debit as &mut dyn Acquire], with.clone()).await;
            match acquired {
                Ok(AcquireOutcome::Won(_)) => {
                    self.cache(debit.window);
                    return Ok(Ok(debit));
                }
                Ok(_) => {}
                Err(refused) => {
                    self.close_unused(debit.window).await?;
                    return Err(refused);
                }
            }
            if let Some(exceeded) = self.make_room(&mut debit).await? {
                return Ok(Err(exceeded));
            }
            if let Some(booking) = &debit.booking {
                debit.booking = Some(booking.again(self, debit.window).await?);
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.claims.tidelock
    }

    /// Returns the record that counts the units taken.
    pub(crate) fn counter(&self) -> Result<RecordKey, StoreError> {
        keys::taken(&self.key())
    }

    /// Returns the parts of a commit that take the units, and the grant, which tells by `landing`
    /// whether they were taken; or that the quota is exceeded, with guards on what this rests on.
    /// The commit takes `staged` other units already.
    pub(crate) async fn propose(
        &self,
        units: u32,
        staged: i64,
        landing: &Landing,
    ) -> Result<Outcome<ProposedDraw, (QuotaExceeded, Vec<Guard>)>, ClaimError> {
        self.check()?;
        self.claims.refuse_operation()?;
        let window = self.current_window().await?;
        let mut debit = Debit::new(self.key(), window, i64::from(units), self.limit)?;
        for _ in 0..ATTEMPTS {
            let after = |used: i64| used.saturating_add(staged).saturating_add(i64::from(units));
            let mut guards = Vec::new();
            let mut used = self.used().await?;
            if after(used) > self.limit {
                // Judged again after its guards were read, so that a change in between fails the
                // commit.
                guards = self.guards().await?;
                used = self.used().await?;
            }
            if after(used) <= self.limit {
                let grant = Grant { landing: Some(landing.clone()), ..debit.grant() };
                let (parts, unless) =
                    (debit.stage(Commit::new())?, self.closing_unused(debit.window)?);
                return Ok(Outcome::Granted(ProposedDraw { parts, unless, grant }));
            }
            debit.refusal = Some(DebitRefusal::Exceeded(used.saturating_add(staged)));
            if let Some(exceeded) = self.make_room(&mut debit).await? {
                // A window that was opened for these units only is closed by now.
                if debit.window.opened.is_some() {
                    guards = self.guards().await?;
                }
                return Ok(Outcome::Refused((exceeded, guards)));
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    async fn used(&self) -> Result<i64, ClaimError> {
        let taken = taken(&**self.claims.store(), self.key().as_str()).await?;
        Ok(taken.map_or(0, |(used, _)| used))
    }

    /// The units taken and their window, as they are now.
    async fn guards(&self) -> Result<Vec<Guard>, ClaimError> {
        let keys = [keys::window(&self.key())?, self.counter()?];
        let slots = self.claims.store().get(&keys).await?;
        let guard = |(key, slot): (RecordKey, &Slot)| Guard::Record { expected: seen(slot), key };
        Ok(keys.into_iter().zip(&slots).map(guard).collect())
    }

    /// Handles a refusal: opens the next window, or credits expired reservations; or returns that
    /// the quota is exceeded.
    pub(super) async fn make_room(
        &self,
        debit: &mut Debit,
    ) -> Result<Option<QuotaExceeded>, ClaimError> {
        match debit.refusal.take() {
            Some(DebitRefusal::Exceeded(used)) => {
                let any = crediting::credit(&self.claims, &self.key(), debit.window).await?;
                if !any {
                    self.close_unused(debit.window).await?;
                }
                return Ok((!any).then(|| debit.exceeded(used)));
            }
            Some(DebitRefusal::Over) => debit.window = self.open().await?,
            Some(DebitRefusal::Settled) => return Err(ClaimError::Settled { key: self.key() }),
            Some(DebitRefusal::Moved) | None => {}
        }
        Ok(None)
    }

    /// Creates a debit in the last known window.
    pub(super) async fn debit(&self, units: u32) -> Result<Debit, ClaimError> {
        self.check()?;
        self.claims.check()?;
        let window = match self.cached() {
            Some(window) => window,
            None => self.current_window().await?,
        };
        let debit = Debit::new(self.key(), window, i64::from(units), self.limit)?;
        Ok(debit.once(self.claims.operation.as_ref())?)
    }

    /// Creates a debit that is held with other claims.
    pub(super) async fn pledge(&self, units: u32) -> Result<Debit, ClaimError> {
        Ok(self.debit(units).await?.pledged(self.claims.operation.as_ref()))
    }

    /// Returns the open window, opening it if necessary.
    async fn current_window(&self) -> Result<Window, ClaimError> {
        let slots = self.claims.store().get(&[keys::window(&self.key())?]).await?;
        match slots.first().and_then(Window::of) {
            Some(window) => Ok(window),
            None => self.open().await,
        }
    }

    /// Returns the window that a grant was taken from, if it is still open.
    async fn window_of(&self, grant: &Grant) -> Result<Option<Window>, ClaimError> {
        let window = match self.cached() {
            Some(window) if window.revision == grant.window => Some(window),
            _ => {
                let slots = self.claims.store().get(&[keys::window(&self.key())?]).await?;
                slots.first().and_then(Window::of)
            }
        };
        Ok(window.filter(|window| window.revision == grant.window))
    }

    /// Opens the current window with nothing taken, or returns the one that was opened
    /// concurrently.
    async fn open(&self) -> Result<Window, ClaimError> {
        let (window, taken) = (keys::window(&self.key())?, keys::taken(&self.key())?);
        for _ in 0..ATTEMPTS {
            let now = self.claims.store().now().await?;
            let occurrence = self.period.at(now, &self.zone)?;
            let secret = Secret::fresh();
            let content = Window::content(&occurrence.label, secret)?;
            let opened = RecordWrite::put(&window, ExpectedRevision::Absent, content);
            let none = RecordWrite::put(&taken, ExpectedRevision::Any, RawJson::new(&0)?);
            let (opened, none) = match occurrence.end {
                Some(end) => (opened.expiring(end), none.expiring(end)),
                None => (opened, none),
            };
            let outcome = self.claims.send(&Commit::new().write(opened).write(none)).await?;
            if let Some(window) = opened_window(&window, outcome, occurrence.end, secret) {
                return Ok(window);
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    /// Deletes a window that was opened for units which were then refused, unless others were taken
    /// from it since.
    async fn close_unused(&self, window: Window) -> Result<(), ClaimError> {
        if let Some(close) = self.closing_unused(window)? {
            let _closed_or_used = self.claims.store().commit(close).await?;
        }
        Ok(())
    }

    /// The commit that does so, if this process has just opened the window.
    fn closing_unused(&self, window: Window) -> Result<Option<Commit>, StoreError> {
        let Some(opened) = window.opened else { return Ok(None) };
        let delete = |key: &RecordKey, revision| {
            RecordWrite::delete(key, ExpectedRevision::Revision(revision))
        };
        let (key, taken) = (keys::window(&self.key())?, self.counter()?);
        let commit = Commit::new().write(delete(&key, window.revision));
        Ok(Some(commit.write(delete(&taken, opened))))
    }

    /// Rejects a negative limit.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.limit {
            limit if limit < 0 => {
                let key = self.key();
                Err(StoreError::invalid(format!(
                    "claim {key:?}: a limit of {limit}; a quota has one of 0 or more"
                )))
            }
            _ => Ok(()),
        }
    }

    fn report<G>(&self, taken: Result<G, QuotaExceeded>) -> Outcome<G, QuotaExceeded> {
        let outcome = if taken.is_ok() { "won" } else { "exceeded" };
        telemetry::claimed(&self.name, &self.claims.by, outcome);
        taken.into()
    }

    fn cached(&self) -> Option<Window> {
        *self.cached_window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self, window: Window) {
        let window = Window { opened: None, ..window };
        *self.cached_window.lock().unwrap_or_else(PoisonError::into_inner) = Some(window);
    }

    fn uncached(mut self) -> Self {
        self.cached_window = Arc::default();
        self
    }
}

fn seen(slot: &Slot) -> ExpectedRevision {
    slot.live()
        .map_or(ExpectedRevision::Absent, |record| ExpectedRevision::Revision(record.revision))
}

/// Returns the window after an attempt to open one, unless it is over already.
/// The parts of a commit that take units, and what they give.
pub(crate) struct ProposedDraw {
    pub(crate) parts: Commit,
    /// What is committed if these parts never are.
    pub(crate) unless: Option<Commit>,
    pub(crate) grant: Grant,
}

fn opened_window(
    key: &RecordKey,
    outcome: CommitOutcome,
    end: Option<tidelock_store::When>,
    secret: Secret,
) -> Option<Window> {
    match outcome {
        CommitOutcome::Committed(committed) => {
            let end = end.map(|end| end.resolve(committed.at));
            let revision = committed.writes.first()?.revision?;
            let (secret, opened) = (Some(secret), committed.writes.get(1)?.revision);
            let window = Window { revision, end, secret, opened };
            (end.is_none_or(|end| end > committed.at)).then_some(window)
        }
        CommitOutcome::Conflict(conflict) => Window::of(super::acquire::found(&conflict, key)?),
    }
}
