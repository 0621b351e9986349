//! Claims: locks, keys, quotas, compounds and singletons.

use std::future::Future;
use std::time::Duration;

use tidelock::claims::{ClaimError, IdempotencyClaim, Period, RefundOutcome, RefusalReason};
use tidelock::store::{
    Commit, ExpectedRevision, Fence, NewEvent, RawJson, RecordWrite, Result, StoreExt, StreamName,
};
use tidelock::{ExpectedVersion, Outcome, Timestamp};

use super::{Client, GLANCE};
use crate::history;
use crate::simulator::mutants::Mutant;
use crate::simulator::state::{CALLS, Guarded, HOT, QUOTA, record};

/// Windows of the rate.
const WINDOW: Duration = Duration::from_secs(5);

impl Client {
    /// Reads what the lock protects, and writes it again in another call.
    pub(super) async fn use_lock(&self, id: &str) {
        let nth = self.draw(|rng| rng.below(HOT));
        let lock = self.claims.lock("lock").of(nth).lease(self.process.world.plan.lease);
        let lock = lock.within(GLANCE);
        let Some(Ok(acquired)) = self.insist(async || lock.acquire().await).await else { return };
        let Outcome::Granted(guard) = acquired else {
            self.sometimes("lock is waited for");
            return;
        };
        let Some(Ok(commit)) =
            self.insist(async || self.bump(nth, guard.fence(), id, Commit::new()).await).await
        else {
            return;
        };
        let pause = self.draw(|rng| rng.millis(0, 400));
        self.process.sleep(pause).await;
        let world = &self.process.world;
        let name = format!("{nth}/{id}");
        world.asks("bump", &name);
        let commit = commit.with_retry_id();
        let unfenced = self.process.is(Mutant::LocksWriteUnfenced);
        let written = self.insist(async || match unfenced {
            true => {
                let outcome = self.tidelock.store().commit(commit.clone()).await?;
                Ok::<_, tidelock::Error>(outcome.committed()?)
            }
            false => Ok(guard.commit(commit.clone()).await?),
        });
        match written.await {
            Some(Ok(_)) => world.told("bump", &name),
            Some(Err(error)) if error.kind() == tidelock::ErrorKind::LeaseLost => {
                self.sometimes("write under a lost lock is refused");
            }
            Some(Err(error)) => self.strange("a write under a lock", &error),
            None => {}
        }
        let _given_back = guard.release().await;
    }

    /// The write of what the lock protects, after it was read.
    async fn bump(&self, nth: u64, fence: Fence, id: &str, with: Commit) -> Result<Commit> {
        let key = record(format!("guarded/{nth}"));
        let before = self.tidelock.store().get_one(&key).await?.into_live();
        let before: Guarded =
            before.map(|record| record.value.to()).transpose()?.unwrap_or_default();
        if before.fence > 0 && before.fence + 1 < fence.get() {
            self.sometimes("lock is taken over from a holder that was lost");
        }
        let after = Guarded { fence: fence.get(), total: before.total + 1 };
        // Fences begin again in a store that was imported.
        let era = self.process.world.place().era;
        let event = NewEvent::of("bumped", &(id, (era, fence.get())))?;
        let stream = StreamName::new(format!("bumps-{nth}"))?;
        let write = RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&after)?);
        Ok(with.append(&stream, ExpectedVersion::Any, [event]).write(write))
    }

    /// A key that several clients want, with an effect in the commit that completes it.
    pub(super) async fn use_key(&self, id: &str) {
        let nth = self.draw(|rng| rng.below(12));
        let name = format!("pay:{nth}");
        let key = self.claims.idempotency(&name).lease(self.process.world.plan.lease);
        let claim = self.insist(async || key.claim::<String>().await).await;
        let world = &self.process.world;
        match claim {
            Some(Ok(IdempotencyClaim::Won(won))) => {
                let pause = self.draw(|rng| rng.millis(0, 500));
                self.process.sleep(pause).await;
                let Ok(mut commit) = completion(&name) else { return };
                if self.process.is(Mutant::KeysWriteOutside) {
                    let store = self.tidelock.store();
                    let _landed = store.commit(std::mem::take(&mut commit)).await;
                }
                let completed =
                    self.insist(async || won.complete_with(&id.to_owned(), commit.clone()).await);
                if let Some(Ok(_)) = completed.await {
                    world.answer("key", &name, id);
                    world.told("key", &name);
                }
            }
            Some(Ok(IdempotencyClaim::Held(holder))) => {
                self.sometimes("key is held by another claimant");
                if let Ok(result) = holder.wait(GLANCE).await {
                    self.process.alive().await;
                    world.answer("key", &name, &result);
                }
            }
            Some(Ok(IdempotencyClaim::Done(result))) => {
                self.sometimes("key is done");
                world.answer("key", &name, &result);
            }
            Some(Ok(IdempotencyClaim::Mismatch(_))) => world.problem(format!("{name}: mismatch")),
            Some(Err(error)) => self.strange("a key", &error),
            None => {}
        }
    }

    /// Units that are out, and given back.
    pub(super) async fn use_quota(&self, id: &str) {
        let (reserves, units) = self.draw(|rng| (rng.one_in(2), 1 + rng.below(3)));
        let units = u32::try_from(units).unwrap_or(1);
        let taken = match reserves {
            true => self.reserve(id, units).await,
            false => self.take(id, units).await,
        };
        match taken {
            Ok(true) => self.sometimes("units are refunded"),
            Ok(false) => self.sometimes("quota is exceeded"),
            Err(
                ClaimError::Store(_) | ClaimError::Contended { .. } | ClaimError::Settled { .. },
            ) => {}
            Err(error) => self.strange("a quota", &error.into()),
        }
    }

    async fn take(&self, id: &str, units: u32) -> std::result::Result<bool, ClaimError> {
        let quota = self.claims.quota("rate", QUOTA).per(Period::Every(WINDOW));
        let recorded = self.begin_taking("rate", id, units);
        let taken = quota.take(units).await;
        self.end_taking(recorded, &taken, |grant| grant.ends);
        let Outcome::Granted(grant) = taken? else { return Ok(false) };
        let pause = self.draw(|rng| rng.millis(0, 3_000));
        self.process.sleep(pause).await;
        self.refund("rate", id, quota.refund(&grant)).await
    }

    async fn reserve(&self, id: &str, units: u32) -> std::result::Result<bool, ClaimError> {
        let quota = self.claims.quota("seats", QUOTA);
        let recorded = self.begin_taking("seats", id, units);
        let taken = quota.reserve(units, Duration::from_secs(4)).await;
        self.end_taking(recorded, &taken, |reserved| Some(reserved.until()));
        let Outcome::Granted(reserved) = taken? else { return Ok(false) };
        let pause = self.draw(|rng| rng.millis(0, 6_000));
        self.process.sleep(pause).await;
        self.refund("seats", id, reserved.refund()).await
    }

    /// Draws on a rate limit.
    pub(super) async fn draw_rate(&self) {
        let units = u32::try_from(self.draw(|rng| 1 + rng.below(2))).unwrap_or(1);
        let rate = self.claims.rate("calls", CALLS.0, CALLS.1 * CALLS.0);
        let world = &self.process.world;
        match self.insist(async || rate.take(units).await).await {
            Some(Ok(Outcome::Granted(usage))) => {
                let now = world.moment().at.unwrap_or_default();
                let full_at = history::micros(usage.full_at);
                if world.facts(|facts| facts.drawn.insert(full_at, (units, now))).is_some() {
                    world.problem(format!("two draws exhaust the rate until {full_at}"));
                }
            }
            Some(Ok(Outcome::Refused(_))) => self.sometimes("rate is exceeded"),
            Some(Err(error)) => self.strange("a draw", &error),
            None => {}
        }
    }

    fn begin_taking(&self, quota: &str, id: &str, units: u32) -> usize {
        self.process.world.begin(
            self.author(),
            history::Action::Take {
                quota: quota.to_owned(),
                limit: QUOTA,
                id: id.to_owned(),
                units: units.into(),
            },
        )
    }

    fn end_taking<T, E>(
        &self,
        recorded: usize,
        taken: &std::result::Result<Outcome<T, E>, ClaimError>,
        until: impl FnOnce(&T) -> Option<Timestamp>,
    ) {
        let from = self.process.world.moment().at.unwrap_or_default();
        let outcome = match taken {
            Ok(Outcome::Granted(granted)) => {
                let until = until(granted).map_or(i64::MAX, history::micros);
                history::Outcome::Done(history::Answer::Taken { from, until })
            }
            Ok(Outcome::Refused(_)) => history::Outcome::Refused(Vec::new()),
            Err(error) => history::Outcome::Unknown(error.to_string()),
        };
        self.process.world.end(recorded, outcome);
    }

    async fn refund(
        &self,
        quota: &str,
        id: &str,
        refund: impl Future<Output = std::result::Result<RefundOutcome, ClaimError>>,
    ) -> std::result::Result<bool, ClaimError> {
        let world = &self.process.world;
        let action = history::Action::Refund { quota: quota.to_owned(), id: id.to_owned() };
        let recorded = world.begin(self.author(), action);
        let refunded = refund.await;
        let at = world.moment().at.unwrap_or_default();
        let outcome = match &refunded {
            Ok(_) => history::Outcome::Done(history::Answer::Refunded { at }),
            Err(error) => history::Outcome::Unknown(error.to_string()),
        };
        world.end(recorded, outcome);
        Ok(refunded? == RefundOutcome::Refunded)
    }

    /// Who asks, in the history: not a caller of the store.
    fn author(&self) -> history::Client {
        let process = self.process.name().to_owned();
        history::Client { process, number: 1_000 + self.number as u64 }
    }

    /// A key, a lock and units, or nothing.
    pub(super) async fn use_compound(&self, id: &str) {
        let lease = self.process.world.plan.lease;
        let (nth, key) = self.draw(|rng| (rng.below(HOT), rng.below(12)));
        let name = format!("award:{key}");
        let lock = self.claims.lock("lock").of(nth).lease(lease);
        let quota = self.claims.quota("awards", QUOTA).per(Period::Every(WINDOW));
        let compound = self.claims.claim_all().lock(&lock).quota(&quota, 1);
        let compound = compound.idempotency(&self.claims.idempotency(&name).lease(lease));
        let world = &self.process.world;
        let claimed = match self.insist(async || compound.claim().await).await {
            Some(Ok(claimed)) => claimed,
            // It was won, and its lease has run out before the answer came.
            Some(Err(error)) if matches!(error.details(), Some(ClaimError::Settled { .. })) => {
                return;
            }
            Some(Err(error)) => return self.strange("a compound", &error),
            None => return,
        };
        let mut all = match claimed {
            Outcome::Granted(all) => all,
            Outcome::Refused(refusals) => {
                self.sometimes("compound is refused");
                for refusal in &*refusals {
                    if let RefusalReason::Done { result, .. } = &refusal.why
                        && let Ok(result) = result.to::<String>()
                    {
                        world.answer("award", &name, &result);
                    }
                }
                return;
            }
        };
        let lock = all.fences().find(|(key, _)| key.kind() == "lock").map(|(_, fence)| fence);
        let Some(fence) = lock else {
            return world.problem(format!("{name}: a compound without its lock"));
        };
        let Some(Ok(commit)) = self
            .insist(async || {
                let with = completion(&name)?;
                self.bump(nth, fence, id, with).await
            })
            .await
        else {
            return;
        };
        let bump = format!("{nth}/{id}");
        world.asks("bump", &bump);
        match all.complete_with(&id.to_owned(), commit).await {
            Ok(()) => {
                self.process.alive().await;
                world.told("bump", &bump);
                world.answer("award", &name, id);
            }
            Err(ClaimError::Lost { .. }) => self.sometimes("write under a lost lock is refused"),
            Err(
                ClaimError::Store(_) | ClaimError::Contended { .. } | ClaimError::Settled { .. },
            ) => {}
            Err(error) => self.strange("a compound", &error.into()),
        }
    }

    /// One of a kind.
    pub(super) async fn use_singleton(&self, id: &str) {
        let nth = self.draw(|rng| rng.below(8));
        let singleton = self.claims.clone().operation_id(id).singleton("only").of(nth);
        let name = nth.to_string();
        let won = self
            .insist(async || {
                let event = NewEvent::of("taken", &id)?;
                let stream = StreamName::new(format!("taken-{name}"))?;
                let with = Commit::new().append(&stream, ExpectedVersion::Any, [event]);
                singleton.take_with(id, with).await
            })
            .await;
        match won {
            Some(Ok(Outcome::Granted(()))) => self.process.world.answer("singleton", &name, id),
            Some(Ok(Outcome::Refused(by))) => {
                self.sometimes("singleton is taken");
                if let Ok(Some(by)) = by.details::<String>() {
                    self.process.world.answer("singleton", &name, &by);
                }
            }
            Some(Err(error)) => self.strange("a singleton", &error),
            None => {}
        }
    }
}

/// The effect that lands with the result of a key.
fn completion(name: &str) -> Result<Commit> {
    let event = NewEvent::of("completed", &name)?;
    let stream = StreamName::new("completions")?;
    Ok(Commit::new().append(&stream, ExpectedVersion::Any, [event]))
}
