//! What was counted of one mechanism in one scenario, and the line that it becomes.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::reader::Seen;
use super::writer::{Ack, Written};
use crate::measure::percentile;
use crate::report::write_line;

/// Counted over all slices.
#[derive(Debug, Default)]
pub(super) struct Tally {
    commits: u64,
    statements: u64,
    retried: u64,
    /// From the first one's start to the last one's end, slice by slice.
    elapsed: Duration,
    times: Vec<Duration>,
    /// From the answer to a caller until the reader saw the event.
    lags: Vec<Duration>,
    pub(super) skipped: u64,
    pub(super) disordered: u64,
    /// What somebody who reads everything has read.
    scanned: Option<u64>,
}

/// A line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    scenario: &'a str,
    mechanism: &'a str,
    commits_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Commits in a statement.
    batch: f64,
    lag_p50_ms: f64,
    lag_p99_ms: f64,
    retried: u64,
    skipped: u64,
    disordered: u64,
    scanned_per_s: Option<f64>,
}

impl Tally {
    /// What the processes did in a slice.
    pub(super) fn add_written(&mut self, processes: &[Written]) {
        let begun = processes.iter().map(|written| written.begun).min().unwrap_or_default();
        let ended = acks(processes).map(|ack| ack.at).max().unwrap_or_default();
        self.elapsed += Duration::from_micros(ended.saturating_sub(begun));
        self.commits += acks(processes).count() as u64;
        self.statements += processes.iter().map(|written| written.statements).sum::<u64>();
        self.retried += processes.iter().map(|written| written.retried).sum::<u64>();
        self.times.extend(acks(processes).map(|ack| Duration::from_micros(ack.took)));
    }

    /// What the reader saw of it, and how many events there are.
    pub(super) fn add_seen(&mut self, processes: &[Written], seen: &Seen, there: u64) {
        let lag = |ack: &Ack| Some(seen.at.get(&ack.position)?.saturating_sub(ack.at));
        self.lags.extend(acks(processes).filter_map(lag).map(Duration::from_micros));
        self.skipped += there - seen.at.len() as u64;
        self.disordered += seen.disordered;
    }

    pub(super) fn add_scanned(&mut self, events: u64) {
        *self.scanned.get_or_insert_default() += events;
    }

    pub(super) fn line<'a>(&mut self, scenario: &'a str, mechanism: &'a str) -> Line<'a> {
        self.times.sort_unstable();
        self.lags.sort_unstable();
        Line {
            scenario,
            mechanism,
            commits_per_s: round(self.per_second(self.commits)),
            p50_ms: millis(percentile(&self.times, 50)),
            p99_ms: millis(percentile(&self.times, 99)),
            batch: round(ratio(self.commits, self.statements)),
            lag_p50_ms: millis(percentile(&self.lags, 50)),
            lag_p99_ms: millis(percentile(&self.lags, 99)),
            retried: self.retried,
            skipped: self.skipped,
            disordered: self.disordered,
            scanned_per_s: self.scanned.map(|events| round(self.per_second(events))),
        }
    }

    #[allow(clippy::cast_precision_loss)] // 2^53 operations take longer than anybody measures
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64()
    }
}

fn acks(processes: &[Written]) -> impl Iterator<Item = &Ack> {
    processes.iter().flat_map(|written| &written.acks)
}

#[allow(clippy::cast_precision_loss)] // as above
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

impl Line<'_> {
    pub(super) fn head() -> String {
        format!(
            "{:<13} {:<9} {:>9} {:>8} {:>8} {:>6} {:>9} {:>9} {:>7} {:>7} {:>10} {:>9}",
            "scenario",
            "mechanism",
            "commits/s",
            "p50 ms",
            "p99 ms",
            "batch",
            "lag p50",
            "lag p99",
            "retried",
            "skipped",
            "disordered",
            "scanned/s"
        )
    }

    pub(super) fn write(&self, json: bool) -> io::Result<()> {
        write_line(&if json {
            serde_json::to_string(self).expect("names and numbers are JSON")
        } else {
            self.as_text()
        })
    }

    fn as_text(&self) -> String {
        format!(
            "{:<13} {:<9} {:>9.0} {:>8.2} {:>8.2} {:>6.1} {:>9.2} {:>9.2} {:>7} {:>7} {:>10} {:>9}",
            self.scenario,
            self.mechanism,
            self.commits_per_s,
            self.p50_ms,
            self.p99_ms,
            self.batch,
            self.lag_p50_ms,
            self.lag_p99_ms,
            self.retried,
            self.skipped,
            self.disordered,
            self.scanned_per_s.map_or("-".to_owned(), |rate| format!("{rate:.0}"))
        )
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
