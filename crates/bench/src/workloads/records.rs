//! Records: set if absent, on separate keys and on an existing one; and one shared counter.

use std::sync::Arc;

use tidelock::store::{
    Bounds, Commit, CommitOutcome, ExpectedRevision, RawJson, RecordKey, RecordWrite, Store,
    StoreExt, ViolationKind,
};

use super::{Bench, Case, committed};
use crate::baseline;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::rows;

pub(super) async fn measure_absent(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let value = RawJson::parse(rows::payload())?;
    let setters = (0..case.callers)
        .map(|caller| Setter {
            store: fixture.store.clone(),
            caller,
            next: 0,
            value: value.clone(),
        })
        .collect();
    let comparison =
        Comparison::of(Callers(setters)).against(baseline::sets(&fixture, case.baseline).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

pub(super) async fn measure_taken(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let (key, value) = (RecordKey::new(rows::HOT_KEY)?, RawJson::parse(rows::payload())?);
    let fixture = Fixture::filled(bench.target, async |store| {
        committed(store.put(&key, ExpectedRevision::Absent, value.clone()).await?)?;
        Ok(())
    });
    let fixture = fixture.await?;
    let losers = (0..case.callers)
        .map(|_| Loser { store: fixture.store.clone(), key: key.clone(), value: value.clone() })
        .collect();
    let comparison = Comparison::of(Callers(losers))
        .against(baseline::refused_sets(&fixture, case.baseline).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

pub(super) async fn measure_add(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let key = RecordKey::new(rows::HOT_KEY)?;
    let fixture = Fixture::filled(bench.target, async |store| {
        committed(store.put(&key, ExpectedRevision::Absent, RawJson::parse("0")?).await?)?;
        Ok(())
    });
    let fixture = fixture.await?;
    let adders = (0..case.callers)
        .map(|_| Adder { store: fixture.store.clone(), key: key.clone() })
        .collect();
    let comparison =
        Comparison::of(Callers(adders)).against(baseline::adds(&fixture, case.baseline).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

/// Sets one new key after the other.
struct Setter {
    store: Arc<dyn Store>,
    caller: usize,
    next: u64,
    value: RawJson,
}

impl Caller for Setter {
    async fn call(&mut self) -> Result<u64, Failure> {
        let key = RecordKey::new(rows::record_key(self.caller, self.next))?;
        self.next += 1;
        committed(self.store.put(&key, ExpectedRevision::Absent, self.value.clone()).await?)?;
        Ok(1)
    }
}

/// Writes an existing key, always refused.
struct Loser {
    store: Arc<dyn Store>,
    key: RecordKey,
    value: RawJson,
}

impl Caller for Loser {
    async fn call(&mut self) -> Result<u64, Failure> {
        match self.store.put(&self.key, ExpectedRevision::Absent, self.value.clone()).await? {
            CommitOutcome::Conflict(conflict) if conflict.has(ViolationKind::Taken) => Ok(1),
            other => Err(Failure::Answer(format!("a key that is taken was given: {other:?}"))),
        }
    }
}

/// Adds to the counter.
struct Adder {
    store: Arc<dyn Store>,
    key: RecordKey,
}

impl Caller for Adder {
    async fn call(&mut self) -> Result<u64, Failure> {
        let commit =
            Commit::new().write(RecordWrite::add(&self.key, 1, Bounds::at_most(rows::BOUND)));
        committed(self.store.commit(commit).await?)?;
        Ok(1)
    }
}
