//! The summary table of a run: a row for each scenario, skipped ones included, and below it the
//! findings.

use indicatif::HumanCount;

use crate::finding::{Finding, in_short};
use crate::tally::Tally;

/// The outcome of a scenario, over all of its rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) result: Result<Tally, &'static str>,
    pub(crate) findings: Vec<Finding>,
}

impl Row {
    pub(crate) fn new(scenario: &'static str) -> Self {
        Self { scenario, result: Ok(Tally::default()), findings: Vec::new() }
    }

    pub(crate) fn skipped(scenario: &'static str, why: &'static str) -> Self {
        Self { scenario, result: Err(why), findings: Vec::new() }
    }

    fn line(&self) -> String {
        match &self.result {
            Ok(tally) => format!("{:<15} {}", self.scenario, numbers(tally)),
            Err(why) => format!("{:<15} skipped: {why}", self.scenario),
        }
    }
}

pub(crate) fn table(rows: &[Row]) -> Vec<String> {
    let head = format!(
        "{:<15} {:>9} {:>8} {:>6} {:>17} {:>7} {:>8} {:>10} {:>8} {:>17} {:>6} {:>8}  faults",
        "scenario",
        "commits",
        "refused",
        "late",
        "unknown",
        "errors",
        "leases",
        "taken over",
        "drained",
        "handled",
        "runs",
        "done"
    );
    let mut lines = vec![head];
    for row in rows {
        lines.push(row.line());
        lines.extend(
            in_short(&row.findings).into_iter().map(|finding| format!("  FOUND {finding}")),
        );
    }
    lines
}

fn numbers(tally: &Tally) -> String {
    let count = |number: u64| HumanCount(number).to_string();
    format!(
        "{:>9} {:>8} {:>6} {:>17} {:>7} {:>8} {:>10} {:>8} {:>17} {:>6} {:>8}  {}",
        count(tally.acked),
        count(tally.refused),
        count(tally.refused_late),
        format!("{} ({} happened)", tally.unknown(), tally.happened),
        count(tally.errors),
        count(tally.leases),
        count(tally.taken_over),
        count(tally.drained),
        format!("{} ({} again)", count(tally.handled), tally.repeated),
        count(tally.runs_finished),
        count(tally.done),
        tally.faults
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Kind;

    #[test]
    fn a_table_names_what_was_skipped_and_what_was_found() {
        let mut killed = Row::new("killed");
        killed.result = Ok(Tally { acked: 1234, happened: 2, not_happened: 1, ..Tally::default() });
        killed.findings.push(Finding::new(Kind::Gap, "stream \"x\""));
        let lines = table(&[killed, Row::skipped("bad-network", "there is no network")]);
        assert!(
            lines[1].starts_with("killed              1,234        0      0    3 (2 happened)"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "  FOUND gap in versions: stream \"x\"");
        assert_eq!(lines[3], "bad-network     skipped: there is no network");
    }
}
