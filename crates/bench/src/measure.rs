//! Measuring: callers who do one operation after the other, and the bare loop, in turns.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, block_in_place, coop};

use crate::bare::Bare;
use crate::failure::Failure;
use crate::progress::Progress;

/// Ours and the bare loop are measured in this many slices each, one after the other. Many, because a disk that others
/// use as well is fast one second and slow the next.
pub(crate) const SLICES: u32 = 10;

/// Somebody who calls the store again and again, and waits for each answer.
pub(crate) trait Caller: Send + 'static {
    /// Makes the next call; gives the number of operations it was, for workloads where that is not one.
    fn call(&mut self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// What was measured of one workload.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) ops_per_s: f64,
    /// The time of one call; half of them took no longer.
    pub(crate) p50: Duration,
    /// The time of one call; ninety-nine in a hundred took no longer.
    pub(crate) p99: Duration,
    pub(crate) bare_ops_per_s: Option<f64>,
    /// The same operations where they should cost the same.
    pub(crate) yardstick_ops_per_s: Option<f64>,
}

/// What takes turns.
pub(crate) struct Contest<C> {
    /// Those who are measured.
    pub(crate) callers: Vec<C>,
    /// The same operations elsewhere, to compare with. May be empty.
    pub(crate) yardstick: Vec<C>,
    /// The bare loops. Without one there is no bare limit.
    pub(crate) bare: Vec<Box<dyn Bare>>,
}

impl<C> Contest<C> {
    /// Callers and bare loops, and nothing else to compare with.
    pub(crate) fn against(bare: Vec<Box<dyn Bare>>, callers: Vec<C>) -> Self {
        Self { callers, yardstick: Vec::new(), bare }
    }
}

/// Measures all of them in turns, for this long each.
pub(crate) async fn measure<C: Caller>(
    contest: Contest<C>,
    time: Duration,
    progress: &Progress,
) -> Result<Measured, Failure> {
    let slice = time / SLICES;
    let Contest { mut callers, mut yardstick, mut bare } = contest;
    let (mut ours, mut other, mut limit) = (Lap::default(), Lap::default(), Lap::default());
    // The first calls make streams, prepare statements and warm caches; they are not counted.
    callers = ours_for(callers, slice / 5).await?.0;
    yardstick = ours_for(yardstick, slice / 5).await?.0;
    bare_for(&mut bare, slice / 5)?;
    for turn in 1..=SLICES {
        progress.step(&format!("slice {turn} of {SLICES}"));
        let (lap, other_lap);
        (callers, lap) = ours_for(callers, slice).await?;
        ours.add(lap);
        (yardstick, other_lap) = ours_for(yardstick, slice).await?;
        other.add(other_lap);
        progress.step(&format!("slice {turn} of {SLICES}, bare"));
        limit.add(bare_for(&mut bare, slice)?);
    }
    ours.times.sort_unstable();
    Ok(Measured {
        ops_per_s: ours.per_second(),
        p50: percentile(&ours.times, 50),
        p99: percentile(&ours.times, 99),
        bare_ops_per_s: (!bare.is_empty()).then(|| limit.per_second()),
        yardstick_ops_per_s: (!yardstick.is_empty()).then(|| other.per_second()),
    })
}

/// What was done in a slice, or in several.
#[derive(Debug, Default)]
struct Lap {
    ops: u64,
    elapsed: Duration,
    /// How long each call took.
    times: Vec<Duration>,
}

impl Lap {
    fn add(&mut self, next: Self) {
        self.ops += next.ops;
        self.elapsed += next.elapsed;
        self.times.extend(next.times);
    }

    #[allow(clippy::cast_precision_loss)] // 2^53 operations take longer than anybody measures
    fn per_second(&self) -> f64 {
        self.ops as f64 / self.elapsed.as_secs_f64()
    }
}

/// All callers at once, each at least one call. The time is that from the first one's start to the last one's end.
async fn ours_for<C: Caller>(callers: Vec<C>, slice: Duration) -> Result<(Vec<C>, Lap), Failure> {
    let begun = Instant::now();
    let tasks: Vec<_> =
        callers.into_iter().map(|caller| tokio::spawn(call_until(caller, begun + slice))).collect();
    let (mut callers, mut all) = (Vec::with_capacity(tasks.len()), Lap::default());
    for task in tasks {
        let (caller, lap) = task.await.map_err(|e| panicked(&e))??;
        callers.push(caller);
        all.add(lap);
    }
    all.elapsed = begun.elapsed();
    Ok((callers, all))
}

async fn call_until<C: Caller>(mut caller: C, end: Instant) -> Result<(C, Lap), Failure> {
    let mut lap = Lap::default();
    let mut before = Instant::now();
    loop {
        lap.ops += caller.call().await?;
        let after = Instant::now();
        lap.times.push(after.duration_since(before));
        if after >= end {
            return Ok((caller, lap));
        }
        // A store that answers at once would never let another caller have the thread.
        coop::consume_budget().await;
        before = Instant::now();
    }
}

fn panicked(error: &JoinError) -> Failure {
    Failure::Answer(format!("a caller ended before its time: {error}"))
}

/// Each bare loop on a thread of its own, at least one group, while the callers rest.
fn bare_for(bare: &mut [Box<dyn Bare>], slice: Duration) -> Result<Lap, Failure> {
    let begun = Instant::now();
    let mut all = Lap::default();
    block_in_place(|| {
        thread::scope(|scope| {
            let run = |bare| {
                let mut first = true;
                scope.spawn(move || Bare::run(bare, &mut || mem::take(&mut first) || begun.elapsed() < slice))
            };
            let loops: Vec<_> = bare.iter_mut().map(|bare| run(&mut **bare)).collect();
            for bare in loops {
                all.ops += bare.join().expect("a bare loop returns its errors")?;
            }
            Ok::<_, Failure>(())
        })
    })?;
    all.elapsed = begun.elapsed();
    Ok(all)
}

/// The smallest time that this many in a hundred did not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn callers_and_bare_loop_are_both_counted() {
        struct Instantly;
        impl Caller for Instantly {
            async fn call(&mut self) -> Result<u64, Failure> {
                Ok(2)
            }
        }
        struct Loop;
        impl Bare for Loop {
            fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
                Ok(std::iter::repeat_with(time_for_more).take_while(|more| *more).count() as u64)
            }
        }
        let contest = Contest {
            callers: vec![Instantly, Instantly],
            yardstick: vec![Instantly],
            bare: vec![Box::new(Loop) as Box<dyn Bare>],
        };
        let measured = measure(contest, Duration::from_millis(30), &Progress::new(1)).await.unwrap();
        assert!(measured.ops_per_s > 0.0);
        assert!(measured.p50 <= measured.p99);
        assert!(measured.bare_ops_per_s.unwrap() > 0.0);
        assert!(measured.yardstick_ops_per_s.unwrap() > 0.0);
    }
}
