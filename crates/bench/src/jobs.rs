//! Benchmarks of jobs, beside the commits of the same store and beside the job queues of others.
//!
//! Three parts. *Enqueue*: callers that enqueue one job or a hundred in each call, beside as many
//! callers that commit as many events. *Drain*: a backlog that is worked off by one process and by
//! four, with an empty handler, with limits and pauses unused and used. *Calls*: what a job costs
//! in calls of the store. The peers are another program, named by `--peer`; they have their tables
//! on the same server, and take turns with Tidelock.

mod calls;
mod drain;
mod enqueue;
mod peer;
mod work;
mod workers;

use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::args::{JobsArgs, JobsPart};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::{Line, round, write_line};
use crate::target::Target;
use calls::JobCalls;
use drain::{Drained, Setting};
use enqueue::Enqueued;
use peer::Peers;

pub(crate) use work::serve as work;

/// Callers, and jobs in each call.
const ENQUEUES: [(usize, usize); 4] = [(1, 1), (32, 1), (1, 100), (32, 100)];

/// Processes that work a backlog off.
const PROCESSES: [usize; 2] = [1, 4];

/// The target of 32 callers: how many times the fastest peer.
const AHEAD: f64 = 5.0;

/// The target of limits and pauses in use: the minimum share of the speed without them.
const SHARE: f64 = 0.9;

/// Measures everything on each of the stores, and prints it.
pub(crate) async fn measure_all(args: &JobsArgs) -> Result<(), Failure> {
    for url in &args.urls {
        let target = block_in_place(|| Target::parse(url))?;
        if matches!(target, Target::Memory) {
            return Err(Failure::Usage {
                what: "jobs are measured with several processes, and memory: has one".to_owned(),
                hint: "sqlite: or postgres:".to_owned(),
            });
        }
        measure_on(&target, args).await?;
    }
    Ok(())
}

async fn measure_on(target: &Target, args: &JobsArgs) -> Result<(), Failure> {
    let peers = Peers::of(args.peer.as_deref(), target);
    let cases = ENQUEUES.len() + PROCESSES.len() + 1;
    let mut progress = Progress::new(cases, 10);
    let say =
        |progress: &Progress, line: &dyn Line| progress.print(|| write_line(&line.said(args.json)));
    progress.note(&format!("measuring {target}"));
    if let Some(about) = target.describe().await?.filter(|_| !args.json) {
        progress.print(|| write_line(&about))?;
    }
    for (callers, batch) in ENQUEUES.into_iter().filter(|_| args.measures(JobsPart::Enqueue)) {
        progress.begin(&format!("enqueue-{batch}@{callers}"));
        let of = enqueue::Case { callers, batch };
        say(&progress, &enqueue::measure(target, &peers, of, args.seconds, &progress).await?)?;
    }
    for processes in PROCESSES.into_iter().filter(|_| args.measures(JobsPart::Drain)) {
        progress.begin(&format!("drain@{processes}"));
        say(&progress, &drain::measure(target, &peers, processes, args, &progress).await?)?;
    }
    if args.measures(JobsPart::Calls) {
        progress.begin("calls");
        for calls in calls::measure(target, args.jobs).await? {
            say(&progress, &calls)?;
        }
    }
    Ok(())
}

/// A target, and whether it is met.
fn said_target(value: f64, least: f64) -> String {
    let missed = if value < least { ", missed" } else { "" };
    format!("(target: {least} or more{missed})")
}

impl Line for Enqueued {
    fn as_text(&self) -> String {
        let mut text = format!(
            "{:<12} {:>3} callers {:>3} a call {:>9.0} jobs/s  p50 {:.2?}  p99 {:.2?}  the store's commits {:>9.0} events/s  ratio {:.2}",
            "enqueue",
            self.case.callers,
            self.case.batch,
            self.jobs_per_s(),
            self.ours.p50,
            self.ours.p99,
            self.commits_per_s(),
            self.ratio(),
        );
        for (peer, figures) in &self.peers {
            let rate = figures.ops_per_s;
            text += &format!("\n  {peer} {rate:.0} jobs/s: {:.1}x", self.jobs_per_s() / rate);
        }
        if let Some(ahead) = self.ahead().filter(|_| self.has_target()) {
            text += &format!("\n  {ahead:.1}x the fastest peer {}", said_target(ahead, AHEAD));
        }
        text
    }

    fn as_json(&self) -> Value {
        json!({
            "workload": "enqueue",
            "callers": self.case.callers,
            "batch": self.case.batch,
            "jobs_per_s": round(self.jobs_per_s(), 1),
            "p50_ms": round(self.ours.p50.as_secs_f64() * 1e3, 4),
            "p99_ms": round(self.ours.p99.as_secs_f64() * 1e3, 4),
            "baseline_events_per_s": round(self.commits_per_s(), 1),
            "ratio": round(self.ratio(), 4),
            "peers": rates(self.peers.iter().map(|(peer, figures)| (*peer, figures.ops_per_s))),
            "ahead": self.ahead().map(|ahead| round(ahead, 2)),
            "at_least": self.has_target().then_some(AHEAD),
        })
    }
}

impl Line for Drained {
    fn as_text(&self) -> String {
        let mut text = format!(
            "{:<12} {:>3} processes {:>8} jobs {:>9.0} jobs/s  the store's commits {:>9.0} events/s  ratio {:.2}",
            "drain",
            self.processes,
            self.jobs,
            self.jobs_per_s(),
            self.commits_per_s,
            self.ratio(),
        );
        for setting in Setting::USED {
            let share = self.share(setting);
            let (name, rate) = (setting.name(), self.rate(setting));
            text += &format!(
                "\n  with {name} {rate:.0} jobs/s: {share:.2} {}",
                said_target(share, SHARE)
            );
        }
        for (peer, rate) in &self.peers {
            text += &format!("\n  {peer} {rate:.0} jobs/s: {:.1}x", self.jobs_per_s() / rate);
        }
        text
    }

    fn as_json(&self) -> Value {
        json!({
            "workload": "drain",
            "processes": self.processes,
            "jobs": self.jobs,
            "jobs_per_s": round(self.jobs_per_s(), 1),
            "baseline_events_per_s": round(self.commits_per_s, 1),
            "ratio": round(self.ratio(), 4),
            "shares": rates(Setting::USED.map(|setting| (setting.name(), self.share(setting)))),
            "share_at_least": SHARE,
            "peers": rates(self.peers.iter().copied()),
        })
    }
}

impl Line for JobCalls {
    fn as_text(&self) -> String {
        format!("{:<12} {}: {}", "calls", self.what, self.each)
    }

    fn as_json(&self) -> Value {
        json!({
            "workload": "calls",
            "of": self.what,
            "commits": round(self.each.commits, 3),
            "leases": round(self.each.leases, 3),
            "reads": round(self.each.reads, 3),
            "other": round(self.each.other, 3),
        })
    }
}

fn rates<'a>(rates: impl IntoIterator<Item = (&'a str, f64)>) -> Value {
    rates.into_iter().map(|(name, rate)| (name.to_owned(), json!(round(rate, 4)))).collect()
}
