//! Positive and negative controls of the checkers: correct histories in which nothing is found, and
//! for every anomaly at least two histories that show it.

mod accounts;
mod bad;
mod commits;
mod feed;
mod holders;
mod model;
mod mutations;
mod objects;
mod random;
mod script;
mod transactions;

use std::collections::BTreeMap;

use super::{ANOMALIES, Report, check};
use bad::Bad;
use script::Script;

fn report(script: &Script) -> Report {
    let (history, audit) = script.finished();
    check(&history, &audit)
}

#[track_caller]
fn assert_correct(script: &Script) {
    assert_eq!(report(script).to_string(), "");
}

#[test]
fn every_bad_history_shows_its_anomaly_and_every_anomaly_has_two() {
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for Bad { anomaly, name, script } in bad::all() {
        let report = report(&script);
        assert!(report.anomalies().contains(anomaly), "{anomaly}, {name}: found\n{report}");
        *shown.entry(anomaly).or_default() += 1;
    }
    for anomaly in ANOMALIES {
        assert!(shown.get(anomaly).is_some_and(|count| *count >= 2), "{anomaly}: {shown:?}");
    }
}

#[test]
fn the_story_of_a_cycle_names_its_transactions_and_their_dependencies() {
    let script = transactions::write_skew();
    let report = report(&script);
    let story = &report.violations[0].story;
    assert!(story.contains("--rw stream x-->") && story.contains("--rw stream y-->"), "{story}");
}
