//! A backlog, worked off by several processes with an empty handler.
//!
//! Every drain has its own store, or its own tables of the peer. The settings and the peers take
//! turns, round by round, and the median of the rounds counts.

use tidelock::jobs::JobFilter;
use tidelock::prelude::*;

use super::peer::{Peer, Peers};
use super::work::{LimitedWork, Work};
use super::workers::Workers;
use crate::args::JobsArgs;
use crate::child::Child;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::Side;
use crate::progress::Progress;
use crate::target::Target;
use crate::workloads::Team;

/// Which of limits and pauses are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    Unused,
    /// A global limit that is never reached.
    Limited,
    /// Another queue is paused.
    Paused,
}

impl Setting {
    const ALL: [Self; 3] = [Self::Unused, Self::Limited, Self::Paused];
    pub(super) const USED: [Self; 2] = [Self::Limited, Self::Paused];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unused => "neither",
            Self::Limited => "a global limit",
            Self::Paused => "another queue paused",
        }
    }
}

/// The figures of one number of processes.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) processes: usize,
    pub(super) jobs: usize,
    /// Jobs per second, in the order of the settings.
    ours: [f64; 3],
    /// Commits of one event each, by as many callers as there are slots.
    pub(super) commits_per_s: f64,
    pub(super) peers: Vec<(&'static str, f64)>,
}

impl Drained {
    pub(super) fn rate(&self, setting: Setting) -> f64 {
        self.ours[setting as usize]
    }

    pub(super) fn jobs_per_s(&self) -> f64 {
        self.rate(Setting::Unused)
    }

    pub(super) fn ratio(&self) -> f64 {
        self.jobs_per_s() / self.commits_per_s
    }

    /// The share of the speed that is left with this setting.
    pub(super) fn share(&self, setting: Setting) -> f64 {
        self.rate(setting) / self.jobs_per_s()
    }
}

pub(super) async fn measure(
    target: &Target,
    peers: &Peers<'_>,
    processes: usize,
    args: &JobsArgs,
    progress: &Progress,
) -> Result<Drained, Failure> {
    let (mut ours, mut commits) = ([const { Vec::new() }; 3], Vec::new());
    let mut others: Vec<_> = peers.all.iter().map(|peer| (*peer, Vec::new())).collect();
    for round in 1..=args.rounds {
        progress.step(&format!("round {round} of {}", args.rounds));
        for setting in Setting::ALL {
            ours[setting as usize].push(drain(target, setting, processes, args).await?);
        }
        commits.push(commit(target, processes, args).await?);
        for (peer, rates) in &mut others {
            rates.push(drain_peer(*peer, processes, args).await?);
        }
    }
    Ok(Drained {
        processes,
        jobs: args.jobs,
        ours: ours.map(median),
        commits_per_s: median(commits),
        peers: others.into_iter().map(|(peer, rates)| (peer.name, median(rates))).collect(),
    })
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn drain(
    target: &Target,
    setting: Setting,
    processes: usize,
    args: &JobsArgs,
) -> Result<f64, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let tidelock = Tidelock::over(fixture.store.clone());
    let queue = fill(&tidelock, setting, args.jobs).await.map_err(wrong)?;
    let mut options = vec!["jobs-worker".to_owned(), format!("--slots={}", args.slots)];
    options.extend((setting == Setting::Limited).then(|| "--limited".to_owned()));
    let url = target.url();
    let workers = Workers::start(processes, || Child::start(&options, &url))?;
    let rate = workers.drain(args.jobs)?;
    let left = tidelock.jobs().list(&JobFilter::queue(queue)).all().await.map_err(wrong)?;
    if !left.is_empty() {
        return Err(wrong(format_args!("{} jobs are left of those that were done", left.len())));
    }
    fixture.clear().await?;
    Ok(rate)
}

/// Enqueues the backlog, and returns its queue.
async fn fill(
    tidelock: &Tidelock,
    setting: Setting,
    jobs: usize,
) -> tidelock::Result<&'static str> {
    if setting == Setting::Paused {
        tidelock.jobs().pause("another", "measured").await?;
    }
    if setting == Setting::Limited {
        tidelock.enqueue_all((0..jobs).map(|_| LimitedWork::new())).await?;
        return Ok(LimitedWork::QUEUE);
    }
    tidelock.enqueue_all((0..jobs).map(|_| Work::new())).await?;
    Ok(Work::QUEUE)
}

/// The store's own commits of one event, by as many callers as there are slots.
async fn commit(target: &Target, processes: usize, args: &JobsArgs) -> Result<f64, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let mut team = Team::start(&target.url(), processes, args.slots, 0)?;
    team.warm_up(args.seconds / 10).await?;
    let rate = team.run_slice(args.seconds).await?.figures().ops_per_s;
    drop(team);
    fixture.clear().await?;
    Ok(rate)
}

async fn drain_peer(peer: Peer<'_>, processes: usize, args: &JobsArgs) -> Result<f64, Failure> {
    let store = peer.store().await?;
    store.fill(args.jobs)?;
    let workers = Workers::start(processes, || store.process(args.slots))?;
    let rate = workers.drain(args.jobs)?;
    store.clear().await?;
    Ok(rate)
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Answer(error.to_string())
}
