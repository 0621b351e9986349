//! Decisions about aggregates, beside the same commits made directly; and loads, beside reading the
//! same events.

mod account;
mod load;

use std::sync::Arc;

use tidelock::Tidelock;
use tidelock::events::AggregateRef;

use super::{Bench, Case, commits};
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Measured};
use account::{Account, pay};

pub(super) use load::measure as measure_load;

/// Each caller decides about its own aggregate. The baseline is as many callers that commit such
/// events to their own streams.
pub(super) async fn measure_distinct(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let tidelock = Tidelock::over(fixture.store.clone());
    let deciders = Callers((0..case.callers).map(|n| Decider::new(&tidelock, n)).collect());
    let writers = commits::writers(&fixture.store, 0, case.callers, 1)?;
    finish(bench, fixture, Comparison::of(deciders).against(baseline("store", writers))).await
}

/// All callers decide about one aggregate. The baseline is as many callers with one aggregate each.
pub(super) async fn measure_hot(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let tidelock = Tidelock::over(fixture.store.clone());
    let hot = Callers((0..case.callers).map(|_| Decider::new(&tidelock, usize::MAX)).collect());
    let distinct =
        Callers((0..case.callers).map(|n| Decider::new(&tidelock, n)).collect::<Vec<_>>());
    finish(bench, fixture, Comparison::of(hot).against(baseline("distinct", distinct))).await
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

struct Decider {
    account: AggregateRef<Account>,
    note: Arc<str>,
}

impl Decider {
    fn new(tidelock: &Tidelock, number: usize) -> Self {
        Self { account: tidelock.aggregate(number.to_string()), note: account::note() }
    }
}

impl Caller for Decider {
    async fn call(&mut self) -> Result<u64, Failure> {
        let decided = self.account.execute(|account| pay(account, &self.note)).await;
        decided.map_err(|error| Failure::Answer(format!("a decision was lost: {error}")))?;
        Ok(1)
    }
}
