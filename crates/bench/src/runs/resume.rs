//! The time from waking a run to its function being back where it was, by the number of recorded
//! steps; beside reading its history.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::AppBuilder;
use tidelock::HandlerError as Failed;
use tidelock::runs::{RunCtx, StepError, Workflow};
use tidelock::store::{Commit, ItemRef, StoreExt, StreamName, Wake};
use tidelock::{Tidelock, When};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::counting_store::CountingStore;
use super::driven::{Driven, wrong};
use super::shape::Shape;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::percentile;
use crate::target::Target;

const WORKFLOW: Workflow<usize, ()> = Workflow::new("long");
const RUN: &str = "resumed-run";

/// The figures; the median of several rounds.
pub(super) struct Resumed {
    pub(super) steps: usize,
    pub(super) time: Duration,
    /// The time to read the whole history.
    pub(super) reading: Duration,
}

impl Resumed {
    #[allow(clippy::cast_precision_loss)] // thousands
    pub(super) fn micros_a_step(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.steps as f64
    }
}

pub(super) async fn measure(
    target: &Target,
    rounds: usize,
    steps: usize,
) -> Result<Resumed, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let counting_store = CountingStore::over(&fixture.store);
    let tidelock = Tidelock::over(counting_store.clone());
    let (told, there) = mpsc::unbounded_channel();
    let driven = Driven::start(long(tidelock.app(), told))?;
    let mut sleeper = Sleeper::new(counting_store, &tidelock, there, steps).await?;
    let (mut times, mut readings) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.push(sleeper.resume().await?);
        readings.push(sleeper.read().await?);
    }
    driven.stop().await?;
    fixture.clear().await?;
    times.sort_unstable();
    readings.sort_unstable();
    Ok(Resumed { steps, time: percentile(&times, 50), reading: percentile(&readings, 50) })
}

/// A number of steps, and then a wait that never ends. Every turn reports when it reaches the wait.
fn long(app: AppBuilder, told: UnboundedSender<Instant>) -> AppBuilder {
    app.workflow(WORKFLOW, move |ctx: RunCtx, steps: usize| {
        let told = told.clone();
        async move {
            for nth in 0..steps {
                ctx.step(format!("step-{nth}"), |_| async move { Ok::<_, Failed>(nth) }).await?;
            }
            let _nobody_waits = told.send(Instant::now());
            ctx.wait_for_signal::<()>("never").await?;
            Ok::<_, StepError>(())
        }
    })
}

/// A run that waits.
struct Sleeper {
    counting_store: Arc<CountingStore>,
    there: UnboundedReceiver<Instant>,
    stream: StreamName,
    item: ItemRef,
}

impl Sleeper {
    /// Returns when all its steps are recorded and it waits.
    async fn new(
        counting_store: Arc<CountingStore>,
        tidelock: &Tidelock,
        mut there: UnboundedReceiver<Instant>,
        steps: usize,
    ) -> Result<Self, Failure> {
        counting_store.keep();
        tidelock.start(WORKFLOW, RUN, &steps).await.map_err(wrong)?;
        let shape = Shape::of(RUN, counting_store.take())?;
        arrival(&mut there).await?;
        counting_store.until_settled(0).await;
        let (Some(stream), Some(item)) = (shape.stream().cloned(), shape.item().cloned()) else {
            return Err(wrong("the start of a run neither wrote a history nor woke an item"));
        };
        Ok(Self { counting_store, there, stream, item })
    }

    /// Wakes it without a reason; returns the time until its function is where it was.
    async fn resume(&mut self) -> Result<Duration, Failure> {
        let (settled, begun) = (self.counting_store.settled(), Instant::now());
        let wake = Wake::at(self.item.clone(), When::NOW);
        tidelock::store::Store::commit(&*self.counting_store, Commit::new().wake(wake))
            .await?
            .committed()
            .map_err(wrong)?;
        let time = arrival(&mut self.there).await?.saturating_duration_since(begun);
        self.counting_store.until_settled(settled).await;
        Ok(time)
    }

    async fn read(&self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        self.counting_store.read_whole_stream(&self.stream).await?;
        Ok(begun.elapsed())
    }
}

async fn arrival(there: &mut UnboundedReceiver<Instant>) -> Result<Instant, Failure> {
    there.recv().await.ok_or_else(|| wrong("the run ended"))
}
