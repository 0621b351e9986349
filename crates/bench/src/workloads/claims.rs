//! Claims, beside plain commits of the store.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use tidelock::Outcome;
use tidelock::Tidelock;
use tidelock::claims::{Claims, IdempotencyClaim};

use super::{Bench, Case, commits};
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Measured};
use crate::rows;

/// Callers on a quota, and its limit.
const CONTENDERS: usize = 100;
const QUOTA: i64 = 18;

/// Each caller claims its own keys and completes them. The baseline is as many callers that commit
/// events.
pub(super) async fn measure_complete(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let claims = claims(&fixture);
    let payers = (0..case.callers).map(|caller| Payer::new(&claims, caller)).collect();
    let writers = commits::writers(&fixture.store, 0, case.callers, 1)?;
    finish(bench, fixture, Comparison::of(Callers(payers)).against(baseline("store", writers)))
        .await
}

/// All callers claim one completed key. The baseline is a separate key for each.
pub(super) async fn measure_hot(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let claims = claims(&fixture);
    let (mut hot, mut distinct) = (Vec::new(), Vec::new());
    for caller in 0..case.callers {
        hot.push(Asker::new(&claims, "hot".to_owned()).await?);
        distinct.push(Asker::new(&claims, format!("own-{caller}")).await?);
    }
    finish(
        bench,
        fixture,
        Comparison::of(Callers(hot)).against(baseline("distinct", Callers(distinct))),
    )
    .await
}

/// Each caller takes its own lock and releases it. The baseline is as many callers that commit
/// events.
pub(super) async fn measure_locks(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let claims = claims(&fixture);
    let lockers =
        (0..case.callers).map(|caller| Locker { claims: claims.clone(), caller }).collect();
    let writers = commits::writers(&fixture.store, 0, case.callers, 1)?;
    finish(bench, fixture, Comparison::of(Callers(lockers)).against(baseline("store", writers)))
        .await
}

/// A hundred concurrent callers on a quota of 18, repeatedly. The baseline is a quota that is
/// enough.
pub(super) async fn measure_quota(bench: &Bench<'_>) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let crowd =
        |name, limit| Callers(vec![Contenders { claims: claims(&fixture), name, limit, round: 0 }]);
    let comparison = Comparison::of(crowd("scarce", QUOTA))
        .against(baseline("ample", crowd("ample", CONTENDERS as i64)));
    finish(bench, fixture, comparison).await
}

fn claims(fixture: &Fixture) -> Claims {
    Tidelock::over(fixture.store.clone()).claims()
}

fn baseline<C: Caller>(name: &'static str, callers: Callers<C>) -> Vec<Baseline> {
    vec![Baseline { name, side: Box::new(callers) }]
}

async fn finish(
    bench: &Bench<'_>,
    fixture: Fixture,
    comparison: Comparison,
) -> Result<Measured, Failure> {
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

fn answer(what: impl fmt::Display) -> Failure {
    Failure::Answer(what.to_string())
}

struct Payer {
    claims: Claims,
    caller: usize,
    next: u64,
    receipt: Arc<str>,
}

impl Payer {
    fn new(claims: &Claims, caller: usize) -> Self {
        Self { claims: claims.clone(), caller, next: 0, receipt: rows::payload().into() }
    }
}

impl Caller for Payer {
    async fn call(&mut self) -> Result<u64, Failure> {
        let claim = self.claims.idempotency(format!("pay:{}:{}", self.caller, self.next));
        self.next += 1;
        let IdempotencyClaim::Won(won) =
            claim.fingerprint(&self.next).claim::<Arc<str>>().await.map_err(answer)?
        else {
            return Err(answer("a key of a caller's own was taken"));
        };
        won.complete(&self.receipt).await.map_err(answer)?;
        Ok(2)
    }
}

struct Asker {
    claims: Claims,
    key: String,
}

impl Asker {
    /// Completes the key before the first call.
    async fn new(claims: &Claims, key: String) -> Result<Self, Failure> {
        if let IdempotencyClaim::Won(won) =
            claims.idempotency(&key).claim::<String>().await.map_err(answer)?
        {
            won.complete(&rows::payload()).await.map_err(answer)?;
        }
        Ok(Self { claims: claims.clone(), key })
    }
}

impl Caller for Asker {
    async fn call(&mut self) -> Result<u64, Failure> {
        match self.claims.idempotency(&self.key).claim::<String>().await.map_err(answer)? {
            IdempotencyClaim::Done(_) => Ok(1),
            other => Err(answer(format_args!("a key that is done was given: {other:?}"))),
        }
    }
}

struct Locker {
    claims: Claims,
    caller: usize,
}

impl Caller for Locker {
    async fn call(&mut self) -> Result<u64, Failure> {
        match self.claims.lock(self.caller.to_string()).acquire().await.map_err(answer)? {
            Outcome::Granted(guard) => guard.release().await.map_err(answer)?,
            Outcome::Refused(busy) => return Err(answer(busy)),
        }
        Ok(2)
    }
}

struct Contenders {
    claims: Claims,
    name: &'static str,
    limit: i64,
    round: u64,
}

impl Caller for Contenders {
    async fn call(&mut self) -> Result<u64, Failure> {
        let quota = self.claims.quota(self.name, self.limit).of(self.round);
        self.round += 1;
        let mut granted = 0;
        for taking in join_all((0..CONTENDERS).map(|_| quota.take(1))).await {
            granted += i64::from(matches!(taking.map_err(answer)?, Outcome::Granted(_)));
        }
        if granted != self.limit {
            return Err(answer(format_args!("{granted} of {} were granted", self.limit)));
        }
        Ok(CONTENDERS as u64)
    }
}
