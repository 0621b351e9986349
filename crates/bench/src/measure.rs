//! Measuring: several sides that do the same work, alternating.

mod callers;
mod slice;

use std::time::Duration;

use tidelock::store::async_trait;

use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) use callers::{Caller, Callers};
pub(crate) use slice::{Figures, Slice, percentile};

/// Every side is measured in this many slices, alternating. Many, because the speed of a shared
/// disk changes from second to second.
pub(crate) const SLICES: u32 = 10;

/// One side of a comparison.
#[async_trait]
pub(crate) trait Side: Send {
    /// Works for about this long, and at least once; a side that can only work for longer gets its
    /// time later.
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure>;

    /// Warms up: the first calls create streams, prepare statements and fill caches; they are not
    /// counted.
    async fn warm_up(&mut self, slice: Duration) -> Result<(), Failure> {
        self.run_slice(slice).await.map(drop)
    }
}

/// A side that shows what the database does by itself.
pub(crate) struct Baseline {
    pub(crate) name: &'static str,
    pub(crate) side: Box<dyn Side>,
}

/// The sides of a comparison.
pub(crate) struct Comparison {
    ours: Box<dyn Side>,
    /// The same operations in another setting, to compare with.
    reference: Option<Box<dyn Side>>,
    /// Empty without a baseline.
    baselines: Vec<Baseline>,
}

impl Comparison {
    pub(crate) fn of(ours: impl Side + 'static) -> Self {
        Self { ours: Box::new(ours), reference: None, baselines: Vec::new() }
    }

    pub(crate) fn compared_with(self, reference: impl Side + 'static) -> Self {
        Self { reference: Some(Box::new(reference)), ..self }
    }

    pub(crate) fn against(self, baselines: Vec<Baseline>) -> Self {
        Self { baselines, ..self }
    }

    fn sides(&mut self) -> impl Iterator<Item = &mut Box<dyn Side>> {
        let baselines = self.baselines.iter_mut().map(|baseline| &mut baseline.side);
        [&mut self.ours].into_iter().chain(&mut self.reference).chain(baselines)
    }
}

/// The figures of one workload.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) ours: Figures,
    pub(crate) reference: Option<Figures>,
    pub(crate) baseline: Vec<(&'static str, Figures)>,
    /// Additional remarks.
    pub(crate) remarks: Vec<String>,
}

impl Measured {
    /// The rate of the fastest baseline.
    pub(crate) fn baseline_ops_per_s(&self) -> Option<f64> {
        self.baseline.iter().map(|(_, figures)| figures.ops_per_s).max_by(f64::total_cmp)
    }

    /// The lowest p99 of the baselines.
    pub(crate) fn baseline_p99(&self) -> Option<Duration> {
        self.baseline.iter().map(|(_, figures)| figures.p99).min()
    }
}

/// Measures all sides alternately, for this long each.
pub(crate) async fn measure(
    mut comparison: Comparison,
    time: Duration,
    progress: &Progress,
) -> Result<Measured, Failure> {
    let slice = time / SLICES;
    for side in comparison.sides() {
        side.warm_up(slice / 5).await?;
    }
    let mut totals: Vec<Slice> = comparison.sides().map(|_| Slice::default()).collect();
    for turn in 1..=SLICES {
        progress.step(&format!("slice {turn} of {SLICES}"));
        for (side, total) in comparison.sides().zip(&mut totals) {
            total.add(side.run_slice(slice).await?);
        }
    }
    let mut figures = totals.into_iter().map(Slice::figures);
    let mut next = || figures.next().expect("there is a total for every side");
    Ok(Measured {
        ours: next(),
        reference: comparison.reference.is_some().then(&mut next),
        baseline: comparison.baselines.iter().map(|baseline| (baseline.name, next())).collect(),
        remarks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many operations in each slice, each of which takes this long.
    struct Steady(u64, Duration);

    #[async_trait]
    impl Side for Steady {
        async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
            Ok(Slice { ops: self.0, elapsed: slice, times: vec![self.1] })
        }
    }

    #[tokio::test]
    async fn every_side_has_its_own_figures_and_the_best_bare_one_counts() {
        let steady = |ops, millis| Steady(ops, Duration::from_millis(millis));
        let baseline = |name, ops, millis| Baseline { name, side: Box::new(steady(ops, millis)) };
        let comparison = Comparison::of(steady(20, 1))
            .compared_with(steady(10, 2))
            .against(vec![baseline("a", 40, 4), baseline("b", 50, 5)]);
        let measured =
            measure(comparison, Duration::from_secs(10), &Progress::new(1, 1)).await.unwrap();
        assert_eq!(measured.ours.ops_per_s.round(), 20.0);
        assert_eq!(measured.reference.as_ref().unwrap().p50, Duration::from_millis(2));
        assert_eq!(measured.baseline_ops_per_s().unwrap().round(), 50.0);
        assert_eq!(measured.baseline_p99(), Some(Duration::from_millis(4)));
    }
}
