//! Lock: one at a time, in the order in which they came; given back when its guard goes away,
//! whatever makes it go.
//!
//! Whoever finds the lock free, and nobody waiting, takes it in one commit. Everybody else stands
//! in a line that is kept in the store, so that it holds across processes. A lock whose holder died
//! is taken over by compare when its lease has run out.

mod contended_locks;
mod guard;
mod held;
mod wait_queue;

use std::fmt;
use std::time::Duration;

use tidelock_store::{Commit, Fence, StoreError, Timestamp, Topic, WorkerName};

use super::acquire::{Acquire, Bidding, bid};
use super::claim_attempt::{ClaimAttempt, ClaimStatus, Contender};
use super::entry::Entry;
use super::held_claim::{HeldClaim, Holding};
use super::wait_policy::{WaitPolicy, Waiting};
use super::{AttachedClaim, ClaimError, ClaimKey, Claims, keys};
use crate::telemetry;

pub(super) use wait_queue::{Line, NobodyWaits, Turn};

pub(crate) use contended_locks::ContendedLocks;
pub use guard::LockGuard;
pub use held::LockHolder;

/// How long a holder that has died keeps others waiting, unless something else is asked for.
const LEASE: Duration = Duration::from_secs(3);

/// The right to be the only one at something, for a while.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct Lock {
    claims: Claims,
    key: ClaimKey,
    lease: Duration,
    patience: WaitPolicy,
}

/// Asks in a task of its own, so that a commit which has begun is never left alone: if nobody waits
/// for the guard any more, it goes away, and gives the lock back.
async fn to_its_end(
    ask: impl Future<Output = Result<LockOutcome, ClaimError>> + Send + 'static,
) -> Result<LockOutcome, ClaimError> {
    match tokio::spawn(ask).await {
        Ok(asked) => asked,
        Err(died) if died.is_panic() => std::panic::resume_unwind(died.into_panic()),
        Err(_) => {
            Err(StoreError::invalid("a lock was asked for while the runtime was shut down").into())
        }
    }
}

/// What came of asking for a lock.
#[derive(Debug)]
#[must_use = "the lock is given back when its guard goes away"]
pub enum LockOutcome {
    /// It is yours, until the guard goes away.
    Locked(LockGuard),
    /// Somebody else has it.
    Busy(LockBusy),
}

/// A lock that somebody else has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "claim {key:?}: {by:?} has it (attempts: {attempts}, in {waited:?}); wait longer, or try again later"
)]
pub struct LockBusy {
    /// Which lock.
    pub key: ClaimKey,
    /// Who has it, or is next in line for it.
    pub by: WorkerName,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Until when, unless they ask for longer.
    pub until: Option<Timestamp>,
    /// How long it was waited for.
    pub waited: Duration,
    /// How often it was looked at.
    pub attempts: u32,
}

impl LockOutcome {
    /// The guard, or what was in the way as an error, for callers to whom it is one.
    ///
    /// # Errors
    /// [`LockBusy`] if somebody else has it.
    pub fn locked(self) -> Result<LockGuard, LockBusy> {
        match self {
            Self::Locked(guard) => Ok(guard),
            Self::Busy(busy) => Err(busy),
        }
    }
}

impl Lock {
    pub(super) fn new(claims: Claims, name: &impl fmt::Display) -> Self {
        let key = ClaimKey::new(keys::LOCK, name);
        Self { claims, key, lease: LEASE, patience: WaitPolicy::SHORT }
    }

    /// One for each of these.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.key = self.key.part(&scope);
        self
    }

    /// How long a holder that has died keeps others waiting; three seconds unless this says
    /// otherwise. The lease of one that lives is renewed, so it need not be as long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long to wait for it; half a second unless this says otherwise.
    pub fn patience(mut self, patience: WaitPolicy) -> Self {
        self.patience = patience;
        self
    }

    /// How long to wait for it.
    pub fn within(self, deadline: Duration) -> Self {
        self.patience(WaitPolicy::of(deadline))
    }

    /// The whole name of this lock.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Takes the lock, or waits in line for it, or says who has it.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name cannot be one.
    ///
    /// # Cancel safety
    /// Whoever stops waiting gives up the place in line, at the latest when it expires by itself,
    /// and has no lock: one that is granted meanwhile is given back at once; under an
    /// [operation](Claims::operation_id), it is left for whoever asks again, until its lease has
    /// run out.
    pub async fn acquire(&self) -> Result<LockOutcome, ClaimError> {
        let mut waiting = self.patience.begin();
        let (lock, first) = (self.clone(), waiting);
        let outcome = match to_its_end(async move { lock.at_once(&first).await }).await? {
            LockOutcome::Busy(_) if !self.patience.deadline.is_zero() => {
                self.in_line(&mut waiting).await?
            }
            outcome => outcome,
        };
        let name = if matches!(outcome, LockOutcome::Locked(_)) { "won" } else { "held" };
        telemetry::claimed(&self.key, &self.claims.by, name);
        Ok(match outcome {
            LockOutcome::Locked(guard) => LockOutcome::Locked(guard.handed_over()),
            busy => busy,
        })
    }

    /// Goes on with a lock that was [passed on](LockGuard::detach), by its fence.
    pub fn attach(&self, fence: Fence) -> AttachedClaim {
        AttachedClaim::new(&self.claims, &self.key, fence)
    }

    /// Who has it; nobody, if it is free or its holder's lease has run out.
    ///
    /// # Errors
    /// `Store` if the store fails, or a name cannot be one.
    pub async fn holder(&self) -> Result<Option<LockHolder>, ClaimError> {
        LockHolder::of(&self.claims, &self.key).await
    }

    pub(super) fn stake(&self) -> Result<ClaimAttempt, StoreError> {
        ClaimAttempt::new(self.key.clone(), Entry::pending(&self.claims, None), self.lease)
    }

    /// If it is free and nobody waits.
    async fn at_once(&self, waiting: &Waiting) -> Result<LockOutcome, ClaimError> {
        let (mut stake, mut line) = (self.stake()?, NobodyWaits::new(&self.key)?);
        let bidding = bid(&self.claims, &mut [&mut stake, &mut line], Commit::new()).await?;
        if bidding == Bidding::Refused && !stake.stands() {
            return match Line::new(&self.claims, &self.key)?.first().await? {
                Some(by) => Ok(self.busy(waiting, by, None)),
                // Whoever waited is gone, and only the sign that somebody did is left.
                None => self.ask(waiting, Commit::new()).await,
            };
        }
        Ok(self.outcome(waiting, &mut stake, bidding))
    }

    async fn ask(&self, waiting: &Waiting, with: Commit) -> Result<LockOutcome, ClaimError> {
        let mut stake = self.stake()?;
        let bidding = bid(&self.claims, &mut [&mut stake as &mut dyn Acquire], with).await?;
        Ok(self.outcome(waiting, &mut stake, bidding))
    }

    async fn ask_in_line(
        &self,
        waiting: Waiting,
        leave: Commit,
    ) -> Result<LockOutcome, ClaimError> {
        let lock = self.clone();
        to_its_end(async move { lock.ask(&waiting, leave).await }).await
    }

    /// Stands in line until it is this one's turn and the lock is free, or until patience is over.
    async fn in_line(&self, waiting: &mut Waiting) -> Result<LockOutcome, ClaimError> {
        let mut freed = self.claims.store().signal(Topic::Record(keys::record(&self.key)?));
        let mut line = Line::new(&self.claims, &self.key)?;
        loop {
            let (busy, ahead) = match line.turn().await? {
                Turn::First(leave) => match self.ask_in_line(*waiting, leave).await {
                    Ok(LockOutcome::Busy(busy)) => (busy, None),
                    Ok(LockOutcome::Locked(guard)) => {
                        line.left();
                        return Ok(LockOutcome::Locked(guard));
                    }
                    // The place was lost meanwhile; the number was not.
                    Err(ClaimError::Refused { .. }) => {
                        line.left();
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                Turn::Behind(ahead) => (self.busy_behind(waiting, &ahead.by), Some(ahead.place)),
            };
            let mut ahead = ahead.map(|place| self.claims.store().signal(Topic::Record(place)));
            let signal = ahead.as_mut().unwrap_or(&mut freed);
            if !waiting.next(signal, self.claims.tidelock.random()).await {
                line.leave().await?;
                return Ok(LockOutcome::Busy(self.in_vain(busy, waiting)));
            }
        }
    }

    fn outcome(
        &self,
        waiting: &Waiting,
        stake: &mut ClaimAttempt,
        bidding: Bidding,
    ) -> LockOutcome {
        match (stake.standing(), bidding) {
            (ClaimStatus::Won(revision), Bidding::Won(at)) => {
                let hold = HeldClaim::new(stake, revision, at);
                let guard = LockGuard::new(Holding::keep(&self.claims, hold));
                LockOutcome::Locked(guard.left_for(self.claims.operation.as_ref()))
            }
            (ClaimStatus::Held(rival), _) => self.busy(waiting, rival.by().clone(), Some(&rival)),
            (ClaimStatus::Won(_) | ClaimStatus::Over(_), _) => unreachable!("a lock has no result"),
        }
    }

    fn busy(&self, waiting: &Waiting, by: WorkerName, rival: Option<&Contender>) -> LockOutcome {
        telemetry::claim_contended(&self.key, &self.claims.by, &by, waiting.looks + 1);
        LockOutcome::Busy(self.busy_with(waiting, by, rival))
    }

    fn busy_behind(&self, waiting: &Waiting, by: &WorkerName) -> LockBusy {
        telemetry::claim_contended(&self.key, &self.claims.by, by, waiting.looks + 1);
        self.busy_with(waiting, by.clone(), None)
    }

    fn busy_with(&self, waiting: &Waiting, by: WorkerName, rival: Option<&Contender>) -> LockBusy {
        LockBusy {
            key: self.key.clone(),
            by,
            since: rival.and_then(|rival| rival.since),
            until: rival.and_then(|rival| rival.until),
            waited: waiting.waited(),
            attempts: waiting.looks + 1,
        }
    }

    fn in_vain(&self, busy: LockBusy, waiting: &Waiting) -> LockBusy {
        telemetry::claim_in_vain(&self.key, &self.claims.by, &busy.by, waiting.looks + 1);
        LockBusy { waited: waiting.waited(), attempts: waiting.looks + 1, ..busy }
    }
}
