//! The report: a table for people, or one JSON object per line for programs.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::HumanCount;
use serde::Serialize;
use serde_json::Value;

use crate::check::Check;
use crate::measure::{Figures, Measured};
use crate::workloads::Case;

/// Writes each row as soon as it is measured.
pub(crate) struct Report {
    json: bool,
}

/// A line of the report, for people or for programs.
pub(crate) trait Line {
    fn as_text(&self) -> String;

    fn as_json(&self) -> Value;

    fn said(&self, json: bool) -> String {
        if json { self.as_json().to_string() } else { self.as_text() }
    }
}

/// One line of JSON.
#[derive(Debug, Serialize)]
struct Row<'a> {
    workload: &'a str,
    callers: usize,
    ops_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    baseline_ops_per_s: Option<f64>,
    ratio: Option<f64>,
    /// If there are several, the fastest counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    baseline: Vec<BaselineRow<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<Check>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    remarks: &'a [String],
}

/// One of several baselines.
#[derive(Debug, Serialize)]
struct BaselineRow<'a> {
    by: &'a str,
    ops_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn head(&self, about: Option<&str>) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if let Some(about) = about {
            write_line(about)?;
        }
        write_line(&format!(
            "{:<18} {:>7} {:>12} {:>10} {:>10} {:>12} {:>6}",
            "workload", "callers", "ops/s", "p50 ms", "p99 ms", "baseline/s", "ratio"
        ))
    }

    pub(crate) fn row(&self, case: &Case, measured: &Measured) -> io::Result<()> {
        let line = Row::new(case, measured);
        if self.json {
            return write_line(&serde_json::to_string(&line).expect("names and numbers are JSON"));
        }
        write_line(&line.as_text())?;
        line.remarks.iter().try_for_each(|remark| write_line(&format!("  {remark}")))
    }
}

impl<'a> Row<'a> {
    fn new(case: &Case, measured: &'a Measured) -> Self {
        let baseline = measured.baseline_ops_per_s();
        let baselines =
            measured.baseline.iter().map(|(name, figures)| BaselineRow::new(name, figures));
        Self {
            workload: case.name,
            callers: case.callers,
            ops_per_s: round(measured.ours.ops_per_s, 1),
            p50_ms: round(millis(measured.ours.p50), 6),
            p99_ms: round(millis(measured.ours.p99), 6),
            baseline_ops_per_s: baseline.map(|baseline| round(baseline, 1)),
            ratio: baseline.map(|baseline| round(measured.ours.ops_per_s / baseline, 4)),
            baseline: if measured.baseline.len() > 1 { baselines.collect() } else { Vec::new() },
            checks: case.target.checks(measured),
            remarks: &measured.remarks,
        }
    }

    fn as_text(&self) -> String {
        let baseline = self.baseline_ops_per_s.map_or("-".to_owned(), count);
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        format!(
            "{:<18} {:>7} {:>12} {:>10.4} {:>10.4} {baseline:>12} {ratio:>6}{}",
            self.workload,
            self.callers,
            count(self.ops_per_s),
            self.p50_ms,
            self.p99_ms,
            self.notes()
        )
    }

    /// The notes after the columns.
    fn notes(&self) -> String {
        let checks = self.checks.iter().map(ToString::to_string);
        let baselines = self
            .baseline
            .iter()
            .map(|baseline| format!("{} {}/s", baseline.by, count(baseline.ops_per_s)));
        let notes: Vec<_> = checks.chain(baselines).collect();
        if notes.is_empty() { String::new() } else { format!("  {}", notes.join(", ")) }
    }
}

impl<'a> BaselineRow<'a> {
    fn new(name: &'a str, figures: &Figures) -> Self {
        let (p50_ms, p99_ms) = (round(millis(figures.p50), 6), round(millis(figures.p99), 6));
        Self { by: name, ops_per_s: round(figures.ops_per_s, 1), p50_ms, p99_ms }
    }
}

/// A closed pipe is an error here, not a panic as with `println!`.
pub(crate) fn write_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate is small and not negative
fn count(rate: f64) -> String {
    HumanCount(rate.round() as u64).to_string()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Rounds to this many decimal places.
pub(crate) fn round(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_exactly_the_fields_that_programs_read() {
        let line = Row {
            workload: "feed",
            callers: 1,
            ops_per_s: 1.5,
            p50_ms: 0.25,
            p99_ms: 0.5,
            baseline_ops_per_s: None,
            ratio: None,
            baseline: Vec::new(),
            checks: Vec::new(),
            remarks: &[],
        };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"workload":"feed","callers":1,"ops_per_s":1.5,"p50_ms":0.25,"p99_ms":0.5,"baseline_ops_per_s":null,"ratio":null}"#
        );
        assert_eq!(
            line.as_text(),
            "feed                     1            2     0.2500     0.5000            -      -"
        );
    }
}
