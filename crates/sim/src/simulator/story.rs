//! The story of a failure: who did what, in order, until the invariant broke.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::plan::Cut;
use super::simulation::Report;
use crate::history::{Moment, Note, Outcome};

/// Lines of a story: the last ones count.
const LINES: usize = 60;

/// Tells what led to the first violation.
pub fn story(report: &Report) -> String {
    let mut text = String::new();
    for violation in report.violations.iter().take(6) {
        let _infallible = writeln!(text, "  BROKEN  {}", cut_off(violation, 400));
    }
    let names = names(report.violations.first().map_or("", String::as_str));
    let mut lines: Vec<(Moment, String)> = Vec::new();
    for operation in &report.history.operations {
        let what = operation.action.name();
        if names.iter().any(|name| what.contains(name)) {
            let who = &operation.client.process;
            let end = outcome(&operation.outcome);
            lines.push((operation.invoked, format!("{who:8} {} -> {end}", cut_off(&what, 200))));
        }
    }
    for remark in &report.history.remarks {
        let who = &remark.client.process;
        match &remark.note {
            Note::Process(what) => lines.push((remark.moment, format!("{who:8} {what}"))),
            Note::Calm => lines.push((remark.moment, "the faults are over".to_owned())),
            note => {
                let what = format!("{note:?}");
                if names.iter().any(|name| what.contains(name)) {
                    lines.push((remark.moment, format!("{who:8} {}", cut_off(&what, 160))));
                }
            }
        }
    }
    lines.sort_by_key(|(moment, _)| *moment);
    let skipped = lines.len().saturating_sub(LINES);
    if skipped > 0 {
        let _infallible = writeln!(text, "  ({skipped} earlier lines are left out)");
    }
    let start = report.history.operations.first().and_then(|first| first.invoked.at).unwrap_or(0);
    for (moment, line) in lines.into_iter().skip(skipped) {
        let seconds = (moment.at.unwrap_or(start) - start) as f64 / 1e6;
        let _infallible = writeln!(text, "  {seconds:9.3}  {line}");
    }
    text
}

/// The command that plays it again.
pub fn command(report: &Report, profile: &str, cut: &Cut) -> String {
    let mut command = format!(
        "cargo run --release -p tidelock-sim -- --seed {} --profile {profile}",
        report.plan.seed
    );
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _infallible = write!(command, " --{name} {value}");
        }
    };
    option("processes", cut.processes.map(|n| n.to_string()));
    option("clients", cut.clients.map(|n| n.to_string()));
    option("operations", cut.operations.map(|n| n.to_string()));
    let list = |events: &Vec<usize>| {
        let events: Vec<String> = events.iter().map(ToString::to_string).collect();
        if events.is_empty() { "none".to_owned() } else { events.join(",") }
    };
    option("events", cut.events.as_ref().map(list));
    let without: BTreeSet<&str> = cut.without.iter().map(|fault| fault.name()).collect();
    let without: Vec<&str> = without.into_iter().collect();
    option("without", (!without.is_empty()).then(|| without.join(",")));
    option("mutant", report.plan.mutant.map(|mutant| format!("{mutant:?}")));
    command
}

/// The names of things in a text: words with a digit, a dash or a slash in them.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'[](){},:".contains(c));
    words
        .filter(|word| word.len() > 3 && word.contains(['-', '/']))
        .take(8)
        .map(str::to_owned)
        .collect()
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(_) => "done".to_owned(),
        Outcome::Refused(refusals) => cut_off(&format!("refused {refusals:?}"), 120),
        Outcome::Failed(why) | Outcome::Unknown(why) => cut_off(why, 80),
    }
}

fn cut_off(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
