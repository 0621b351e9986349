//! Cold loads: nothing is remembered, the whole stream is folded, or what came after its snapshot.

use std::sync::Arc;

use tidelock::{
    Aggregate, AggregateRef, ExpectedVersion, Store, StoreExt, StreamName, Tidelock, limits,
};

use super::account::{Account, Kept, many};
use super::{finish, rival};
use crate::failure::Failure;
use crate::measure::{Caller, Callers, Comparison, Measured};
use crate::site::Fixture;
use crate::workloads::Bench;

/// Loads of a stream of this many events, with and without a snapshot of it. Beside them, reading
/// all of its events.
pub(in crate::workloads) async fn measure(
    bench: &Bench<'_>,
    events: usize,
    snapshot: bool,
) -> Result<Measured, Failure> {
    let site = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let filler = Tidelock::over(site.store.clone());
    fill(&filler, events, snapshot).await?;
    let cold = filler.with_cache(0);
    let stream = cold.aggregate::<Account>("1").stream()?.clone();
    let reader = rival("read", Callers(vec![Reader { store: site.store.clone(), stream }]));
    let contest = if snapshot {
        Comparison::of(Callers(vec![Loader(cold.aggregate::<Kept>("1"))]))
    } else {
        Comparison::of(Callers(vec![Loader(cold.aggregate::<Account>("1"))]))
    };
    finish(bench, site, contest.against(reader)).await
}

/// The last event is decided on by one who keeps the state, so that there is a snapshot of it.
async fn fill(tidelock: &Tidelock, events: usize, snapshot: bool) -> Result<(), Failure> {
    let account = tidelock.aggregate::<Account>("1");
    let mut left = events - 1;
    while left > 0 {
        let some = left.min(limits::EVENTS_PER_COMMIT);
        account.append(ExpectedVersion::Any, many(some)).await.map_err(|error| refused(&error))?;
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
