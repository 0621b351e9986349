//! Claimant: claims keys, locks and quotas, separately and together.
//!
//! Under a lock it reads the protected value and writes it again, in two calls. In between it may
//! hold, report it, and wait: most are killed or stopped there. A late write must be refused.

use std::sync::Arc;
use std::time::Duration;

use tidelock::Outcome;
use tidelock::Timestamp;
use tidelock::claims::{ClaimError, Claims, IdempotencyClaim, Refusal, RefusalReason};
use tidelock::store::{Commit, Fence};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::countdown::Countdown;
use super::join;
use crate::caller::{Backoff, Bug, Caller};
use crate::claim::{self, Bump, Completed, LOCKS, Quota};
use crate::journal::Entry;
use crate::pipe::{Held, Orders, Report, report};
use crate::rng::Rng;
use crate::trouble::Trouble;
use crate::worker_spec::{Holds, WorkerSpec};

/// How long to wait for a lock or a result.
const GLANCE: Duration = Duration::from_millis(300);
/// The life of a reservation.
const RESERVED: Duration = Duration::from_millis(700);
/// How far apart the keys are that callers request at about the same time.
const SPREAD: u64 = 3;

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    holds: Holds,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut callers, mut rng) = (JoinSet::new(), Rng::seeded(spec.seed));
    let countdown = Arc::new(Countdown::of(holds));
    let at_once = if holds == Holds::Alone { 1 } else { spec.load.callers };
    for nth in 0..at_once {
        let claimant = Claimant {
            claims: claim::claims(caller, &spec.name),
            spec: spec.clone(),
            caller: caller.clone(),
            orders: orders.clone(),
            countdown: countdown.clone(),
            rng: Rng::seeded(rng.next()),
            name: format!("{}-{nth}", spec.name),
        };
        callers.spawn(claimant.claim_until_told());
    }
    join(callers).await
}

struct Claimant {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    countdown: Arc<Countdown>,
    rng: Rng,
    claims: Claims,
    name: String,
}

/// Why a claimant did not get a claim.
enum Stop {
    /// Another has it, or had it: try another one.
    Others,
    /// The store gave no answer.
    Store(Trouble),
    Bug(Bug),
}

impl From<ClaimError> for Stop {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Lost { .. }
            | ClaimError::Over { .. }
            | ClaimError::StillHeld { .. }
            | ClaimError::Free { .. }
            | ClaimError::Settled { .. }
            | ClaimError::Contended { .. } => Self::Others,
            ClaimError::Store(error) => Self::Store(error.into()),
            other => Self::Bug(Bug(other.to_string())),
        }
    }
}

impl From<tidelock::store::StoreError> for Stop {
    fn from(error: tidelock::store::StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl From<Bug> for Stop {
    fn from(bug: Bug) -> Self {
        Self::Bug(bug)
    }
}

impl Claimant {
    async fn claim_until_told(mut self) -> Result<(), Bug> {
        let mut backoff = Backoff::new();
        for count in 0u64.. {
            if self.orders.is_finishing() {
                break;
            }
            let claim_audit = match self.rng.below(4) {
                0 => self.use_key(count).await,
                1 => self.use_lock().await,
                2 => self.use_quota(count).await,
                _ => self.use_all(count).await,
            };
            match claim_audit {
                Ok(()) | Err(Stop::Others) => backoff = Backoff::new(),
                Err(Stop::Bug(bug)) => return Err(bug),
                Err(Stop::Store(trouble)) => {
                    self.caller.note(&Entry::Stumbled {
                        during: "claim".to_owned(),
                        trouble: trouble.clone(),
                    });
                    backoff.after(&trouble).await?;
                }
            }
            sleep(self.spec.load.pause / 2 + self.rng.millis(1, 20)).await;
        }
        Ok(())
    }

    /// A key that other callers request at about the same time.
    fn key(&mut self, kind: &str, count: u64) -> String {
        self.spec.space.right(&format!("{kind}-{}", count + self.rng.below(SPREAD)))
    }

    fn told(&self, key: String, result: String) {
        self.caller.note(&Entry::Receipt { key, result });
    }

    async fn use_key(&mut self, count: u64) -> Result<(), Stop> {
        let key = self.key("pay", count);
        match self.claims.idempotency(&key).lease(self.spec.load.lease).claim::<String>().await? {
            IdempotencyClaim::Won(won) => {
                self.caller.note(&Entry::Won { key: key.clone(), fence: won.fence() });
                let completed = Completed { key, result: format!("{}-{count}", self.name) };
                let with = completed.added_to(Commit::new(), &self.spec.space)?;
                won.complete_with(&completed.result, with).await?;
                self.told(completed.key, completed.result);
            }
            IdempotencyClaim::Held(holder) => self.told(key, holder.wait(GLANCE).await?),
            IdempotencyClaim::Done(result) => self.told(key, result),
            IdempotencyClaim::Mismatch(first) => return Err(Bug(first.to_string()).into()),
        }
        Ok(())
    }

    async fn use_lock(&mut self) -> Result<(), Stop> {
        let nth = self.rng.below(LOCKS);
        let lock = claim::lock(&self.claims, &self.spec.space, nth).lease(self.spec.load.lease);
        let Outcome::Granted(guard) = lock.within(GLANCE).acquire().await? else {
            return Ok(());
        };
        let commit = self.bump(nth, guard.fence(), guard.since(), Commit::new()).await?;
        self.judge(nth, guard.fence(), guard.commit(commit).await.map(drop))?;
        Ok(guard.release().await?)
    }

    /// Reads the protected value, and may hold before it is written again.
    async fn bump(
        &self,
        lock: u64,
        fence: Fence,
        since: Timestamp,
        with: Commit,
    ) -> Result<Commit, Stop> {
        self.caller.note(&Entry::Locked { lock, fence, since });
        let before = claim::guarded(&self.caller, &self.spec.space, lock).await?;
        if let Some(_over) = self.countdown.over_with(1) {
            report(&Report::Holding(Held::Lock { lock, fence }));
            self.orders.wait_to_go_on().await;
        }
        let bump = Bump { fence, total: before.map_or(0, |before| before.total) + 1 };
        Ok(bump.added_to(with, &self.spec.space, lock)?)
    }

    /// Journals the outcome of a write under a lock.
    fn judge(
        &self,
        lock: u64,
        fence: Fence,
        written: Result<(), ClaimError>,
    ) -> Result<(), ClaimError> {
        match &written {
            Ok(()) => self.caller.note(&Entry::Bumped { lock, fence }),
            Err(ClaimError::Lost { .. }) => self.caller.note(&Entry::Outrun { lock, fence }),
            Err(_) => {}
        }
        written
    }

    async fn use_quota(&mut self, count: u64) -> Result<(), Stop> {
        let (id, units) = (format!("{}-{count}", self.name), 1 + self.rng.below(3) as u32);
        let is_given_back = self.rng.one_in(2);
        if self.rng.one_in(2) {
            let quota = Quota::Taken.of(&self.claims, &self.spec.space);
            let Outcome::Granted(grant) = quota.take(units).await? else { return Ok(()) };
            self.took(&id, Quota::Taken, grant.units, grant.ends).await?;
            if is_given_back {
                self.gives_back(id).await?;
                quota.refund(&grant).await?;
            }
        } else {
            let quota = Quota::Reserved.of(&self.claims, &self.spec.space);
            let Outcome::Granted(reserved) = quota.reserve(units, RESERVED).await? else {
                return Ok(());
            };
            self.took(&id, Quota::Reserved, reserved.units(), Some(reserved.until())).await?;
            if is_given_back {
                self.gives_back(id).await?;
                reserved.refund().await?;
            }
        }
        Ok(())
    }

    async fn took(
        &self,
        id: &str,
        quota: Quota,
        units: i64,
        until: Option<Timestamp>,
    ) -> Result<(), Bug> {
        let from = self.caller.now().await?;
        let until = until.ok_or_else(|| Bug(format!("what is granted of {quota:?} never ends")))?;
        self.caller.note(&Entry::Took { id: id.to_owned(), quota, units, from, until });
        Ok(())
    }

    async fn gives_back(&mut self, id: String) -> Result<(), Bug> {
        sleep(self.rng.millis(1, 30)).await;
        let at = self.caller.now().await?;
        self.caller.note(&Entry::GivesBack { id, at });
        Ok(())
    }

    /// A key, a lock and a unit of a quota, or none of them.
    async fn use_all(&mut self, count: u64) -> Result<(), Stop> {
        let (key, nth, lease) =
            (self.key("award", count), self.rng.below(LOCKS), self.spec.load.lease);
        let lock = claim::lock(&self.claims, &self.spec.space, nth).lease(lease);
        let quota = Quota::Awarded.of(&self.claims, &self.spec.space);
        let compound = self.claims.claim_all().lock(&lock).quota(&quota, 1);
        let compound = compound.idempotency(&self.claims.idempotency(&key).lease(lease));
        let mut all = match compound.claim().await? {
            Outcome::Granted(all) => all,
            Outcome::Refused(refusals) => return self.refused(&key, &refusals),
        };
        let fence_of =
            |kind| all.fences().find(|(key, _)| key.kind() == kind).map(|(_, fence)| fence);
        let (Some(won), Some(locked)) = (fence_of("idempotency"), fence_of("lock")) else {
            return Err(Bug(format!("what was won has no fences: {}", all.names())).into());
        };
        self.caller.note(&Entry::Won { key: key.clone(), fence: won });
        let ends = all.grants().find_map(|grant| grant.ends);
        let id = format!("{}-{count}", self.name);
        let completed = Completed { key, result: id.clone() };
        let with = completed.added_to(Commit::new(), &self.spec.space)?;
        let commit = self.bump(nth, locked, self.caller.now().await?, with).await?;
        self.judge(nth, locked, all.complete_with(&completed.result, commit).await)?;
        self.told(completed.key, completed.result);
        Ok(self.took(&id, Quota::Awarded, 1, ends).await?)
    }

    /// Journals the result, if that is the reason.
    fn refused(&self, key: &str, refusals: &[Refusal]) -> Result<(), Stop> {
        for refusal in refusals {
            if let RefusalReason::Done { result, .. } = &refusal.why {
                self.told(key.to_owned(), result.to()?);
            }
        }
        Ok(())
    }
}
