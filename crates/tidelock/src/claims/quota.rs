//! Quota: so much in a period and no more, whoever takes it.
//!
//! What was taken is a counter that the store adds to within a bound, in the same commit that asks
//! whether the period is still open. The period is a record that expires when it is over, so the
//! store's clock decides which one is charged, at the moment of the commit; its revision tells one
//! period from the next, so that what is given back goes where it was taken from.

mod booking;
mod crediting;
mod debit;
mod grant;
mod ledger;
mod outcome;
mod pledge;
mod reservation;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, RawJson, RecordKey, RecordWrite, Revision, Slot,
    StoreError, Timestamp,
};

use super::acquire::{Acquire, Bidding, bid};
use super::{ClaimError, ClaimKey, Claims, Period, keys, term};
use crate::telemetry;

use booking::Booking;
use debit::Met;

pub(super) use crediting::taken;
pub(super) use debit::Draw;
pub(super) use ledger::shared_end;
pub(super) use pledge::{Pledge, View};

pub use grant::{Grant, RefundOutcome};
pub use outcome::{QuotaExceeded, QuotaOutcome, QuotaUsage};
pub use reservation::{Reservation, ReservationToken};

/// How often a period may end, or reservations lapse, between two looks at it.
const ATTEMPTS: u32 = 32;

/// So much in a period, and no more.
#[derive(Debug, Clone)]
#[must_use = "nothing is taken until `take` or `reserve` is called"]
pub struct Quota {
    claims: Claims,
    name: ClaimKey,
    limit: i64,
    period: Period,
    zone: TimeZone,
    /// The window that was open when it was last looked at. A guess, which every commit checks.
    guess: Arc<Mutex<Option<Window>>>,
}

/// A period that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) revision: Revision,
    pub(super) end: Option<Timestamp>,
}

impl Window {
    fn of(slot: &Slot) -> Option<Self> {
        slot.live().map(|record| Self { revision: record.revision, end: record.expires_at })
    }
}

impl Quota {
    pub(super) fn new(claims: Claims, name: &impl fmt::Display, limit: i64) -> Self {
        let name = ClaimKey::new(keys::QUOTA, name);
        Self {
            claims,
            name,
            limit,
            period: Period::Ever,
            zone: TimeZone::UTC,
            guess: Arc::default(),
        }
    }

    /// So much for each of these.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.name = self.name.part(&scope);
        self.forget()
    }

    /// So much in each of these; once and for all unless this says otherwise.
    pub fn per(mut self, period: Period) -> Self {
        self.period = period;
        self.forget()
    }

    /// Days and hours are those of this zone; UTC unless this says otherwise.
    pub fn zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self.forget()
    }

    /// The whole name of this quota.
    pub fn key(&self) -> ClaimKey {
        match self.period.named(&self.zone) {
            None => self.name.clone(),
            Some(period) => self.name.clone().per(&period),
        }
    }

    /// Takes so much, if there is so much left: checked and added by the store, in one commit.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name cannot be one.
    pub async fn take(&self, units: u32) -> Result<QuotaOutcome<Grant>, ClaimError> {
        self.take_with(units, Commit::new()).await
    }

    /// Takes so much together with the rest of a commit: all of it lands, or none.
    ///
    /// # Errors
    /// As [`take`](Self::take); and `Refused` if some part of the commit does not hold.
    pub async fn take_with(
        &self,
        units: u32,
        with: Commit,
    ) -> Result<QuotaOutcome<Grant>, ClaimError> {
        let taken = self.draw(units, None, with).await?;
        Ok(self.told(taken.map(|draw| draw.grant())))
    }

    /// Takes so much for a while: it goes back by itself after `life`, unless it is confirmed.
    /// While many reservations of the quota stand, up to a 64th of that later:
    /// [`Reservation::until`] says when.
    ///
    /// # Errors
    /// As [`take`](Self::take); and `Settled` if it was reserved before, under the same
    /// [operation](Claims::operation_id), and has been confirmed, given back or gone back by itself
    /// since.
    pub async fn reserve(
        &self,
        units: u32,
        life: Duration,
    ) -> Result<QuotaOutcome<Reservation>, ClaimError> {
        term::check(&self.key(), "life", life)?;
        let reserved = match self.draw(units, Some(life), Commit::new()).await? {
            Ok(draw) => Ok(Reservation::of(self.clone(), draw).await?),
            Err(exceeded) => Err(exceeded),
        };
        Ok(self.told(reserved))
    }

    /// Goes on with a reservation, by its voucher.
    ///
    /// # Errors
    /// `Store` if the voucher is another quota's.
    pub fn attach(&self, voucher: &ReservationToken) -> Result<Reservation, ClaimError> {
        voucher.grant.belongs_to(&self.key())?;
        Ok(Reservation::resumed(self.clone(), voucher)?)
    }

    /// Gives back what was granted, once, to the period that it was taken from.
    ///
    /// # Errors
    /// `Store` if the store fails, or the grant is another quota's.
    pub async fn refund(&self, grant: &Grant) -> Result<RefundOutcome, ClaimError> {
        grant.refund(&self.claims, &self.key()).await
    }

    /// How much is taken.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn usage(&self) -> Result<QuotaUsage, ClaimError> {
        self.check()?;
        let taken = taken(&**self.claims.store(), self.key().as_str()).await?;
        let (used, resets_at) = taken.map_or((0, None), |(used, window)| (used, window.end));
        Ok(QuotaUsage { used, limit: self.limit, resets_at })
    }

    async fn draw(
        &self,
        units: u32,
        life: Option<Duration>,
        with: Commit,
    ) -> Result<Result<Draw, QuotaExceeded>, ClaimError> {
        let mut draw = self.bid(units).await?;
        if let Some(life) = life {
            draw.booking = Some(Booking::lasting(self, draw.window, life, false).await?);
        }
        for _ in 0..ATTEMPTS {
            if let Bidding::Won(_) =
                bid(&self.claims, &mut [&mut draw as &mut dyn Acquire], with.clone()).await?
            {
                self.remember(draw.window);
                return Ok(Ok(draw));
            }
            if let Some(exceeded) = self.make_room(&mut draw).await? {
                return Ok(Err(exceeded));
            }
            if let Some(booking) = &draw.booking {
                draw.booking = Some(booking.again(self, draw.window).await?);
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    /// The parts of a commit that take so much, and the grant; or that it is exceeded now.
    pub(crate) async fn propose(
        &self,
        units: u32,
    ) -> Result<Result<(Commit, Grant), QuotaExceeded>, ClaimError> {
        self.check()?;
        let mut draw = Draw::new(self.key(), self.look().await?, i64::from(units), self.limit)?
            .once(self.claims.operation.as_ref())?;
        for _ in 0..ATTEMPTS {
            let used = taken(&**self.claims.store(), self.key().as_str()).await?;
            let used = used.map_or(0, |(used, _)| used);
            if used.saturating_add(i64::from(units)) <= self.limit {
                return Ok(Ok((draw.stage(Commit::new())?, draw.grant())));
            }
            draw.met = Some(Met::Exceeded(used));
            if let Some(exceeded) = self.make_room(&mut draw).await? {
                return Ok(Err(exceeded));
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    /// After a refusal: opens the next window, or credits what has lapsed; or says that there is
    /// not so much.
    pub(super) async fn make_room(
        &self,
        draw: &mut Draw,
    ) -> Result<Option<QuotaExceeded>, ClaimError> {
        match draw.met.take() {
            Some(Met::Exceeded(used)) => {
                let any = crediting::credit(&self.claims, &self.key(), draw.window).await?;
                return Ok((!any).then(|| draw.exceeded(used)));
            }
            Some(Met::Over) => draw.window = self.open().await?,
            Some(Met::Settled) => return Err(ClaimError::Settled { key: self.key() }),
            Some(Met::Moved) | None => {}
        }
        Ok(None)
    }

    /// A bid for so much, in the window that is thought to be open.
    pub(super) async fn bid(&self, units: u32) -> Result<Draw, ClaimError> {
        self.check()?;
        self.claims.check_operation()?;
        let window = match self.guessed() {
            Some(window) => window,
            None => self.look().await?,
        };
        let draw = Draw::new(self.key(), window, i64::from(units), self.limit)?;
        Ok(draw.once(self.claims.operation.as_ref())?)
    }

    /// The same, to be held with other claims.
    pub(super) async fn pledge(&self, units: u32) -> Result<Draw, ClaimError> {
        Ok(self.bid(units).await?.pledged(self.claims.operation.as_ref()))
    }

    /// The window that is open, opened if need be.
    async fn look(&self) -> Result<Window, ClaimError> {
        let slots = self.claims.store().get(&[keys::window(&self.key())?]).await?;
        match slots.first().and_then(Window::of) {
            Some(window) => Ok(window),
            None => self.open().await,
        }
    }

    /// Opens the window of this moment, with nothing taken; or finds that somebody else did.
    async fn open(&self) -> Result<Window, ClaimError> {
        let (window, taken) = (keys::window(&self.key())?, keys::taken(&self.key())?);
        for _ in 0..ATTEMPTS {
            let now = self.claims.store().now().await?;
            let stretch = self.period.at(now, &self.zone)?;
            let opened =
                RecordWrite::put(&window, ExpectedRevision::Absent, RawJson::new(&stretch.label)?);
            let none = RecordWrite::put(&taken, ExpectedRevision::Any, RawJson::new(&0)?);
            let (opened, none) = match stretch.end {
                Some(end) => (opened.expiring(end), none.expiring(end)),
                None => (opened, none),
            };
            let outcome = self.claims.send(&Commit::new().write(opened).write(none)).await?;
            if let Some(window) = opened_window(&window, outcome, stretch.end) {
                return Ok(window);
            }
        }
        Err(ClaimError::Contended { key: self.key(), attempts: ATTEMPTS })
    }

    /// Refuses a limit that nothing could be within.
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

    fn told<G>(&self, taken: Result<G, QuotaExceeded>) -> QuotaOutcome<G> {
        let outcome = if taken.is_ok() { "won" } else { "exceeded" };
        telemetry::claimed(&self.name, &self.claims.by, outcome);
        taken.map_or_else(QuotaOutcome::Exceeded, QuotaOutcome::Granted)
    }

    fn guessed(&self) -> Option<Window> {
        *self.guess.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, window: Window) {
        *self.guess.lock().unwrap_or_else(PoisonError::into_inner) = Some(window);
    }

    fn forget(mut self) -> Self {
        self.guess = Arc::default();
        self
    }
}

/// The window that an attempt to open one has left, unless it is over already.
fn opened_window(
    key: &RecordKey,
    outcome: CommitOutcome,
    end: Option<tidelock_store::When>,
) -> Option<Window> {
    match outcome {
        CommitOutcome::Committed(committed) => {
            let end = end.map(|end| end.resolve(committed.at));
            let revision = committed.writes.first()?.revision?;
            (end.is_none_or(|end| end > committed.at)).then_some(Window { revision, end })
        }
        CommitOutcome::Conflict(conflict) => {
            let record = super::acquire::found(&conflict, key)?.live()?;
            Some(Window { revision: record.revision, end: record.expires_at })
        }
    }
}
