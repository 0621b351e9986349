//! Measuring: several sides that do the same work, in turns.

mod callers;
mod lap;

use std::time::Duration;

use tidelock::async_trait;

use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) use callers::{Caller, Callers};
pub(crate) use lap::{Figures, Slice, percentile};

/// Every side is measured in this many slices, one after the other. Many, because a disk that
/// others use as well is fast one second and slow the next.
pub(crate) const SLICES: u32 = 10;

/// One that takes its turns at the work.
#[async_trait]
pub(crate) trait Side: Send {
    /// Works for about this long, and at least once; one that can only work for longer is given its
    /// time later.
    async fn lap(&mut self, slice: Duration) -> Result<Slice, Failure>;

    /// The first calls make streams, prepare statements and warm caches; they are not counted.
    async fn warm_up(&mut self, slice: Duration) -> Result<(), Failure> {
        self.lap(slice).await.map(drop)
    }
}

/// One that shows what the database does by itself.
pub(crate) struct Baseline {
    pub(crate) name: &'static str,
    pub(crate) side: Box<dyn Side>,
}

/// Who takes turns.
pub(crate) struct Comparison {
    ours: Box<dyn Side>,
    /// The same operations elsewhere, to compare with.
    yardstick: Option<Box<dyn Side>>,
    /// Without one there is no bare limit.
    rivals: Vec<Baseline>,
}

impl Comparison {
    pub(crate) fn of(ours: impl Side + 'static) -> Self {
        Self { ours: Box::new(ours), yardstick: None, rivals: Vec::new() }
    }

    pub(crate) fn compared_with(self, yardstick: impl Side + 'static) -> Self {
        Self { yardstick: Some(Box::new(yardstick)), ..self }
    }

    pub(crate) fn against(self, rivals: Vec<Baseline>) -> Self {
        Self { rivals, ..self }
    }

    fn sides(&mut self) -> impl Iterator<Item = &mut Box<dyn Side>> {
        let rivals = self.rivals.iter_mut().map(|rival| &mut rival.side);
        [&mut self.ours].into_iter().chain(&mut self.yardstick).chain(rivals)
    }
}

/// What was measured of one workload.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) ours: Figures,
    pub(crate) yardstick: Option<Figures>,
    pub(crate) bare: Vec<(&'static str, Figures)>,
    /// What else is worth knowing.
    pub(crate) remarks: Vec<String>,
}

impl Measured {
    /// What the quickest of the bare ones did: no other counts.
    pub(crate) fn bare_ops_per_s(&self) -> Option<f64> {
        self.bare.iter().map(|(_, figures)| figures.ops_per_s).max_by(f64::total_cmp)
    }

    /// The best that any of the bare ones has to show here, too.
    pub(crate) fn bare_p99(&self) -> Option<Duration> {
        self.bare.iter().map(|(_, figures)| figures.p99).min()
    }
}

/// Measures all of them in turns, for this long each.
pub(crate) async fn measure(
    mut contest: Comparison,
    time: Duration,
    progress: &Progress,
) -> Result<Measured, Failure> {
    let slice = time / SLICES;
    for side in contest.sides() {
        side.warm_up(slice / 5).await?;
    }
    let mut laps: Vec<Slice> = contest.sides().map(|_| Slice::default()).collect();
    for turn in 1..=SLICES {
        progress.step(&format!("slice {turn} of {SLICES}"));
        for (side, lap) in contest.sides().zip(&mut laps) {
            lap.add(side.lap(slice).await?);
        }
    }
    let mut figures = laps.into_iter().map(Slice::figures);
    let mut next = || figures.next().expect("there is a lap for every side");
    Ok(Measured {
        ours: next(),
        yardstick: contest.yardstick.is_some().then(&mut next),
        bare: contest.rivals.iter().map(|rival| (rival.name, next())).collect(),
        remarks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many operations in each lap, each of which took its time.
    struct Steady(u64, Duration);

    #[async_trait]
    impl Side for Steady {
        async fn lap(&mut self, slice: Duration) -> Result<Slice, Failure> {
            Ok(Slice { ops: self.0, elapsed: slice, times: vec![self.1] })
        }
    }

    #[tokio::test]
    async fn every_side_has_its_own_figures_and_the_best_bare_one_counts() {
        let steady = |ops, millis| Steady(ops, Duration::from_millis(millis));
        let rival = |name, ops, millis| Baseline { name, side: Box::new(steady(ops, millis)) };
        let contest = Comparison::of(steady(20, 1))
            .compared_with(steady(10, 2))
            .against(vec![rival("a", 40, 4), rival("b", 50, 5)]);
        let measured =
            measure(contest, Duration::from_secs(10), &Progress::new(1, 1)).await.unwrap();
        assert_eq!(measured.ours.ops_per_s.round(), 20.0);
        assert_eq!(measured.yardstick.as_ref().unwrap().p50, Duration::from_millis(2));
        assert_eq!(measured.bare_ops_per_s().unwrap().round(), 50.0);
        assert_eq!(measured.bare_p99(), Some(Duration::from_millis(4)));
    }
}
