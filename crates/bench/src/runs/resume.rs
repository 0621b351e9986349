//! From waking a run to its function being back where it was, by how many steps are recorded;
//! beside reading its history.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::reactions::HandlerError as Failed;
use tidelock::runs::{StepError, Workflow};
use tidelock::{Commit, ItemRef, StoreExt, StreamName, Tidelock, Wake, When};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::driven::{Driven, wrong};
use super::shape::Shape;
use super::watched::Watched;
use crate::failure::Failure;
use crate::measure::percentile;
use crate::site::Fixture;
use crate::target::Target;

const WORKFLOW: &str = "long";
const RUN: &str = "resumed-run";

/// What was measured; of several rounds, the one in the middle.
pub(super) struct Resumed {
    pub(super) steps: usize,
    pub(super) time: Duration,
    /// The time that reading all of the history takes.
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
    let site = Fixture::filled(target, async |_| Ok(())).await?;
    let watched = Watched::over(&site.store);
    let tidelock = Tidelock::over(watched.clone());
    let (told, there) = mpsc::unbounded_channel();
    let driven = Driven::start(&tidelock, long(told))?;
    let mut sleeper = Sleeper::new(watched, &tidelock, there, steps).await?;
    let (mut times, mut readings) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.push(sleeper.resume().await?);
        readings.push(sleeper.read().await?);
    }
    driven.stop().await?;
    site.clear().await?;
    times.sort_unstable();
    readings.sort_unstable();
    Ok(Resumed { steps, time: percentile(&times, 50), reading: percentile(&readings, 50) })
}

/// So many steps, and then a wait for something that never comes. Every turn tells when it has come
/// so far.
fn long(told: UnboundedSender<Instant>) -> Workflow {
    Workflow::boxed(WORKFLOW, move |ctx, steps: usize| {
        let told = told.clone();
        Box::pin(async move {
            for nth in 0..steps {
                ctx.step(format!("step-{nth}"), |_| async move { Ok::<_, Failed>(nth) }).await?;
            }
            let _nobody_waits = told.send(Instant::now());
            ctx.wait_for_signal::<()>("never").await?;
            Ok::<_, StepError>(())
        })
    })
}

/// A run that waits.
struct Sleeper {
    watched: Arc<Watched>,
    there: UnboundedReceiver<Instant>,
    stream: StreamName,
    item: ItemRef,
}

impl Sleeper {
    /// When all its steps are recorded, and it waits.
    async fn new(
        watched: Arc<Watched>,
        tidelock: &Tidelock,
        mut there: UnboundedReceiver<Instant>,
        steps: usize,
    ) -> Result<Self, Failure> {
        watched.keep();
        tidelock.runs().start(WORKFLOW, RUN, &steps).await.map_err(wrong)?;
        let shape = Shape::of(RUN, watched.take())?;
        arrival(&mut there).await?;
        watched.until_settled(0).await;
        let (Some(stream), Some(item)) = (shape.stream().cloned(), shape.item().cloned()) else {
            return Err(wrong("the start of a run neither wrote a history nor woke anybody"));
        };
        Ok(Self { watched, there, stream, item })
    }

    /// Wakes it for nothing. The time is that until its function is where it was.
    async fn resume(&mut self) -> Result<Duration, Failure> {
        let (settled, begun) = (self.watched.settled(), Instant::now());
        let wake = Wake::at(self.item.clone(), When::NOW);
        tidelock::Store::commit(&*self.watched, Commit::new().wake(wake))
            .await?
            .committed()
            .map_err(wrong)?;
        let time = arrival(&mut self.there).await?.saturating_duration_since(begun);
        self.watched.until_settled(settled).await;
        Ok(time)
    }

    async fn read(&self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        self.watched.read_whole_stream(&self.stream).await?;
        Ok(begun.elapsed())
    }
}

async fn arrival(there: &mut UnboundedReceiver<Instant>) -> Result<Instant, Failure> {
    there.recv().await.ok_or_else(|| wrong("the run ended"))
}
