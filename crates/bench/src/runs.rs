//! Benchmarks of runs, beside the commits of the same store.
//!
//! A run of five trivial steps, beside the same commits made directly: the commits of one run are
//! recorded and made again under other names, by as many callers, alternating. The cost of a resume
//! by the length of the history, and of a worker that is idle beside a million sleeping runs.

mod calls;
mod counting_store;
mod cpu;
mod driven;
mod flow;
mod idle;
mod resume;
mod shape;

use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::args::{RunsArgs, RunsPart};
use crate::failure::Failure;
use crate::measure::SLICES;
use crate::progress::Progress;
use crate::report::{Line, round, write_line};
use crate::target::Target;
use flow::Flow;
use idle::Idle;
use resume::Resumed;

pub(crate) use calls::{Calls, Each};
pub(crate) use counting_store::CountingStore;
pub(crate) use driven::Driven;

/// Concurrent runs.
const CALLERS: [usize; 2] = [1, 32];

/// The target: the minimum ratio to the baseline, the store's commits alone.
const TARGET_RATIO: f64 = 0.6;

/// Measures everything on each of the stores, and prints it.
pub(crate) async fn measure_all(args: &RunsArgs) -> Result<(), Failure> {
    for url in &args.urls {
        let target = block_in_place(|| Target::parse(url))?;
        measure_on(&target, args).await?;
    }
    Ok(())
}

async fn measure_on(target: &Target, args: &RunsArgs) -> Result<(), Failure> {
    let parts = CALLERS.len() + args.recorded.len() + 1;
    let mut progress = Progress::new(parts, u64::from(SLICES));
    let say =
        |progress: &Progress, line: &dyn Line| progress.print(|| write_line(&line.said(args.json)));
    say(&progress, target)?;
    for callers in CALLERS.into_iter().filter(|_| args.measures(RunsPart::Flow)) {
        progress.begin(&format!("flow@{callers}"));
        let flow = flow::measure(target, args.seconds, callers, &progress).await?;
        say(&progress, &flow)?;
    }
    for &steps in args.recorded.iter().filter(|_| args.measures(RunsPart::Resume)) {
        progress.begin(&format!("resume-{steps}"));
        let resumed = resume::measure(target, args.rounds, steps).await?;
        say(&progress, &resumed)?;
    }
    if args.measures(RunsPart::Idle) {
        progress.begin("idle");
        for idle in idle::measure(target, args, &progress).await? {
            say(&progress, &idle)?;
        }
    }
    Ok(())
}

impl Line for Target {
    fn as_text(&self) -> String {
        format!("measuring {self}")
    }

    fn as_json(&self) -> Value {
        json!({ "target": self.to_string() })
    }
}

impl Line for Flow {
    fn as_text(&self) -> String {
        let missed = if self.ratio() < TARGET_RATIO { ", missed" } else { "" };
        format!(
            "{:<14} {:>2} at once {:>9.0} runs/s {:>9.0} steps/s  p50 {:.2?}  p99 {:.2?}  baseline (commits only) {:>9.0} runs/s  ratio {:.2} \
             (target: {TARGET_RATIO} or more{missed})\n  a run takes {}",
            "five steps",
            self.callers,
            self.ours.ops_per_s,
            self.steps_per_s(),
            self.ours.p50,
            self.ours.p99,
            self.baseline.ops_per_s,
            self.ratio(),
            self.calls.each(self.runs),
        )
    }

    fn as_json(&self) -> Value {
        let each = self.calls.each(self.runs);
        json!({
            "workload": "five steps",
            "callers": self.callers,
            "runs_per_s": round(self.ours.ops_per_s, 1),
            "steps_per_s": round(self.steps_per_s(), 1),
            "p50_ms": round(self.ours.p50.as_secs_f64() * 1e3, 4),
            "p99_ms": round(self.ours.p99.as_secs_f64() * 1e3, 4),
            "baseline_runs_per_s": round(self.baseline.ops_per_s, 1),
            "ratio": round(self.ratio(), 4),
            "at_least": TARGET_RATIO,
            "commits": round(each.commits, 2),
            "leases": round(each.leases, 2),
            "reads": round(each.reads, 2),
            "other": round(each.other, 2),
        })
    }
}

impl Line for Resumed {
    fn as_text(&self) -> String {
        format!(
            "{:<14} {:>6} steps recorded {:>12.2?}, {:>8.2} µs a step  reading them alone {:>12.2?}",
            "resume",
            self.steps,
            self.time,
            self.micros_a_step(),
            self.reading,
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "workload": "resume",
            "steps": self.steps,
            "ms": round(self.time.as_secs_f64() * 1e3, 4),
            "micros_a_step": round(self.micros_a_step(), 3),
            "reading_ms": round(self.reading.as_secs_f64() * 1e3, 4),
        })
    }
}

impl Line for Idle {
    fn as_text(&self) -> String {
        let cpu = self.cpu_percent().map_or("-".to_owned(), |percent| format!("{percent:.3}"));
        format!(
            "{:<14} {:>9} runs asleep {:>6.1} calls/s  {cpu} % of a core",
            "idle",
            self.runs,
            self.calls_per_s()
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "workload": "idle",
            "runs": self.runs,
            "calls_per_s": round(self.calls_per_s(), 2),
            "cpu_percent": self.cpu_percent().map(|percent| round(percent, 4)),
        })
    }
}
