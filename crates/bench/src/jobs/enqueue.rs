//! Callers that enqueue, beside as many that commit events, and beside those of the peers.

use std::time::Duration;

use tidelock::prelude::*;

use super::peer::{PeerCallers, Peers};
use super::work::Work;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Figures};
use crate::progress::Progress;
use crate::target::Target;
use crate::workloads::writers;

/// Callers, and jobs in each call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) callers: usize,
    pub(super) batch: usize,
}

/// The figures of a case.
#[derive(Debug)]
pub(super) struct Enqueued {
    pub(super) case: Case,
    /// Jobs per second, and the time of a call.
    pub(super) ours: Figures,
    /// Commits of as many events as a call has jobs, per second.
    commits: Figures,
    pub(super) peers: Vec<(&'static str, Figures)>,
}

impl Enqueued {
    pub(super) fn jobs_per_s(&self) -> f64 {
        self.ours.ops_per_s
    }

    /// Events per second, in commits of as many as a call has jobs.
    #[allow(clippy::cast_precision_loss)] // a hundred
    pub(super) fn commits_per_s(&self) -> f64 {
        self.commits.ops_per_s * self.case.batch as f64
    }

    pub(super) fn ratio(&self) -> f64 {
        self.jobs_per_s() / self.commits_per_s()
    }

    /// How many times the fastest peer.
    pub(super) fn ahead(&self) -> Option<f64> {
        let fastest = self.peers.iter().map(|(_, figures)| figures.ops_per_s);
        fastest.max_by(f64::total_cmp).map(|fastest| self.jobs_per_s() / fastest)
    }

    pub(super) fn has_target(&self) -> bool {
        self.case.callers == 32 && !self.peers.is_empty()
    }
}

pub(super) async fn measure(
    target: &Target,
    peers: &Peers<'_>,
    case: Case,
    time: Duration,
    progress: &Progress,
) -> Result<Enqueued, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let tidelock = Tidelock::over(fixture.store.clone());
    let caller = |_| Enqueuer { tidelock: tidelock.clone(), batch: case.batch };
    let ours = Callers((0..case.callers).map(caller).collect());
    let writers = writers(&fixture.store, 0, case.callers, case.batch)?;
    let mut others = vec![Baseline { name: "commits", side: Box::new(writers) }];
    let mut stores = Vec::new();
    for peer in &peers.all {
        let (store, Case { callers, batch }) = (peer.store().await?, case);
        let side = PeerCallers { child: store.process(1)?, callers, batch };
        others.push(Baseline { name: peer.name, side: Box::new(side) });
        stores.push(store);
    }
    let measured = measure::measure(Comparison::of(ours).against(others), time, progress).await?;
    for store in stores {
        store.clear().await?;
    }
    fixture.clear().await?;
    let mut others = measured.baseline;
    let (_, commits) = others.remove(0);
    Ok(Enqueued { case, ours: measured.ours, commits, peers: others })
}

/// Enqueues without keys, one job or many in each call.
struct Enqueuer {
    tidelock: Tidelock,
    batch: usize,
}

impl Caller for Enqueuer {
    async fn call(&mut self) -> Result<u64, Failure> {
        let wrong = |error: tidelock::Error| Failure::Answer(error.to_string());
        if self.batch == 1 {
            self.tidelock.enqueue(&Work::new()).await.map_err(wrong)?;
        } else {
            let jobs = (0..self.batch).map(|_| Work::new());
            self.tidelock.enqueue_all(jobs).await.map_err(wrong)?;
        }
        Ok(self.batch as u64)
    }
}
