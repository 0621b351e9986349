//! Cold loads: without a cache, the whole stream is folded, or the events after its snapshot.

use std::sync::Arc;

use tidelock::Tidelock;
use tidelock::events::{Aggregate, AggregateRef};
use tidelock::store::{Store, StoreExt, StreamName, limits};

use super::account::{Account, Kept, many};
use super::{baseline, finish};
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{Caller, Callers, Comparison, Measured};
use crate::workloads::Bench;

/// Loads of a stream of this many events, with and without a snapshot. The baseline is reading all
/// of its events.
pub(in crate::workloads) async fn measure(
    bench: &Bench<'_>,
    events: usize,
    snapshot: bool,
) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let filler = Tidelock::over(fixture.store.clone());
    fill(&filler, events, snapshot).await?;
    let cold = filler.with_cache_capacity(0);
    let stream = cold.aggregate::<Account>("1").stream()?.clone();
    let reader = baseline("read", Callers(vec![Reader { store: fixture.store.clone(), stream }]));
    let comparison = if snapshot {
        Comparison::of(Callers(vec![Loader(cold.aggregate::<Kept>("1"))]))
    } else {
        Comparison::of(Callers(vec![Loader(cold.aggregate::<Account>("1"))]))
    };
    finish(bench, fixture, comparison.against(reader)).await
}

/// The last decision writes the snapshot.
async fn fill(tidelock: &Tidelock, events: usize, snapshot: bool) -> Result<(), Failure> {
    let account = tidelock.aggregate::<Account>("1");
    let mut left = events - 1;
    while left > 0 {
        let some = left.min(limits::EVENTS_PER_COMMIT);
        account.append(many(some)).await.map_err(|error| refused(&error))?;
        left -= some;
    }
    let last = || Ok::<_, std::convert::Infallible>(many(1));
    if snapshot {
        tidelock
            .aggregate::<Kept>("1")
            .execute(|_| last())
            .await
            .map_err(|error| refused(&error))?;
    } else {
        account.execute(|_| last()).await.map_err(|error| refused(&error))?;
    }
    Ok(())
}

fn refused(error: &tidelock::ExecuteError<std::convert::Infallible>) -> Failure {
    Failure::Answer(format!("the stream cannot be filled: {error}"))
}

struct Loader<A>(AggregateRef<A>);

impl<A: Aggregate> Caller for Loader<A> {
    async fn call(&mut self) -> Result<u64, Failure> {
        self.0.load().await.map_err(|error| Failure::Answer(format!("a load failed: {error}")))?;
        Ok(1)
    }
}

struct Reader {
    store: Arc<dyn Store>,
    stream: StreamName,
}

impl Caller for Reader {
    async fn call(&mut self) -> Result<u64, Failure> {
        self.store.read_whole_stream(&self.stream).await?;
        Ok(1)
    }
}
