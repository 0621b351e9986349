//! One durable scope that all callers increment, beside as many callers that commit to separate
//! keys. None may be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use tidelock::Tidelock;
use tidelock::scopes::ScopeState;
use tidelock::scopes::{Scope, ScopeKind};
use tidelock::store::{ExpectedRevision, RawJson, RecordKey, Store, StoreExt};

use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Measured};
use crate::rows;
use crate::workloads::{Bench, Case, committed};

/// Increments a field of a document, which is read, changed and compared.
pub(in crate::workloads) async fn measure_field(
    bench: &Bench<'_>,
    case: &Case,
) -> Result<Measured, Failure> {
    measure::<Value>(bench, case, "count", |document| document["count"].as_i64()).await
}

/// Increments a scope that is a plain integer, which the store adds to.
pub(in crate::workloads) async fn measure_counter(
    bench: &Bench<'_>,
    case: &Case,
) -> Result<Measured, Failure> {
    measure::<i64>(bench, case, "", |count| Some(*count)).await
}

async fn measure<S: ScopeState>(
    bench: &Bench<'_>,
    case: &Case,
    field: &'static str,
    total: fn(&S) -> Option<i64>,
) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let scope = Tidelock::over(fixture.store.clone()).scope::<S>(ScopeKind::ORG, "hot");
    let counted = Arc::new(AtomicI64::new(0));
    let counter = || Counter { scope: scope.clone(), field, counted: counted.clone() };
    let ours = Callers((0..case.callers).map(|_| counter()).collect());
    let comparison = Comparison::of(ours).against(vec![distinct(&fixture.store, case.baseline)?]);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    let (kept, counted) =
        (total(&scope.get().await.map_err(lost)?), counted.load(Ordering::SeqCst));
    fixture.clear().await?;
    if kept != Some(counted) {
        return Err(Failure::Answer(format!("{counted} were counted, and {kept:?} are there")));
    }
    Ok(measured)
}

struct Counter<S> {
    scope: Scope<S>,
    field: &'static str,
    counted: Arc<AtomicI64>,
}

impl<S: ScopeState> Caller for Counter<S> {
    async fn call(&mut self) -> Result<u64, Failure> {
        self.scope.increment(self.field, 1).await.map_err(lost)?;
        self.counted.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` has it
fn lost(error: tidelock::scopes::ScopeError) -> Failure {
    Failure::Answer(format!("a mutation was lost: {error}"))
}

fn distinct(store: &Arc<dyn Store>, callers: usize) -> Result<Baseline, Failure> {
    let value = RawJson::parse(rows::payload())?;
    let owner = |number| {
        let key = RecordKey::new(rows::record_key(number, 0))?;
        Ok(Owner { store: store.clone(), key, value: value.clone() })
    };
    let owners = (0..callers).map(owner).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Baseline { name: "distinct", side: Box::new(Callers(owners)) })
}

/// Writes its own record repeatedly.
struct Owner {
    store: Arc<dyn Store>,
    key: RecordKey,
    value: RawJson,
}

impl Caller for Owner {
    async fn call(&mut self) -> Result<u64, Failure> {
        committed(self.store.put(&self.key, ExpectedRevision::Any, self.value.clone()).await?)?;
        Ok(1)
    }
}
