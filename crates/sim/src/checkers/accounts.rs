//! Exactly-once accounting: reactions, steps of runs, results of runs and keys.
//!
//! Effects outside the store happen at least once under one key, or at most once; what lands in the
//! store lands exactly once. `O(n log n)` in the remarks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Inquiry, Report};
use crate::history::{Action, Answer, Note, Outcome, Phase, StepPromise};

/// Checks every account.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    reactions(inquiry, report);
    handled(inquiry, report);
    steps(inquiry, report);
    recorded(inquiry, report);
    run_results(inquiry, report);
    effects(inquiry, report);
    key_results(inquiry, report);
}

/// What was seen of one step of a run, or of one event at a target.
#[derive(Default)]
struct Account<'a> {
    keys: BTreeSet<&'a str>,
    effects: usize,
    /// Where it landed: the number of the moment and the fence.
    landed: Vec<(u64, Option<u64>)>,
    started: Vec<(u64, Option<u64>)>,
}

impl<'a> Account<'a> {
    fn note(&mut self, seq: u64, fence: Option<u64>, phase: &'a Phase) {
        match phase {
            Phase::Started => self.started.push((seq, fence)),
            Phase::Landed => self.landed.push((seq, fence)),
            Phase::Effect(key) => {
                self.keys.insert(key);
                self.effects += 1;
            }
        }
    }

    /// What every account must be like, whatever it is of.
    fn judge(&self, what: &str, report: &mut Report) {
        let mut found = |anomaly, story: String| {
            report.add(anomaly, format!("{what}: {story}"));
        };
        if self.keys.len() > 1 {
            found("effect under two keys", format!("{:?}", self.keys));
        }
        if self.landed.len() > 1 {
            found("landed twice", format!("at {:?} (moment, fence)", self.landed));
        }
        let Some((landed, under)) = self.landed.first() else { return };
        // A later holder has read that it landed; an earlier one need not know.
        let knows = |(seq, fence): &&(u64, Option<u64>)| {
            seq > landed && matches!((fence, under), (Some(fence), Some(under)) if fence >= under)
        };
        if let Some(again) = self.started.iter().find(knows) {
            found(
                "done again",
                format!("started at {again:?} and landed at {landed} under {under:?}"),
            );
        }
    }
}

fn reactions(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut accounts: BTreeMap<(&str, &str, u64, &str), Account<'_>> = BTreeMap::new();
    for remark in &inquiry.history.remarks {
        let Note::Reaction { reaction, target, rebuild, event, fence, phase } = &remark.note else {
            continue;
        };
        let account = accounts.entry((reaction, target, *rebuild, event)).or_default();
        account.note(remark.moment.seq, *fence, phase);
    }
    for ((reaction, target, _, event), account) in accounts {
        account.judge(&format!("event {event} at {target} of {reaction}"), report);
    }
}

/// The output of each target: every event once, in order.
fn handled(inquiry: &Inquiry<'_>, report: &mut Report) {
    let none = (BTreeMap::new(), Vec::new());
    for (reaction, targets) in &inquiry.audit.to_handle {
        let outputs = inquiry.audit.handled.get(reaction).unwrap_or(&none.0);
        for (target, expected) in targets {
            let found = outputs.get(target).unwrap_or(&none.1);
            account_of_target(&format!("target {target} of {reaction}"), expected, found, report);
        }
        for (target, found) in outputs.iter().filter(|(target, _)| !targets.contains_key(*target)) {
            account_of_target(&format!("target {target} of {reaction}"), &[], found, report);
        }
    }
}

fn account_of_target(what: &str, expected: &[String], found: &[String], report: &mut Report) {
    if expected == found {
        return;
    }
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    expected.iter().for_each(|id| counts.entry(id).or_default().0 += 1);
    found.iter().for_each(|id| counts.entry(id).or_default().1 += 1);
    let ids: BTreeSet<&String> = expected.iter().chain(found).collect();
    let mut is_explained = false;
    for id in ids {
        let (anomaly, story) = match counts[id.as_str()] {
            (1.., 0) => ("not handled", format!("{what}: event {id} is not handled")),
            (0, _) => ("handled for nothing", format!("{what}: event {id} is not its event")),
            (wanted, there) if there > wanted => {
                ("landed twice", format!("{what}: event {id} was handled {there} times"))
            }
            _ => continue,
        };
        is_explained = true;
        report.add(anomaly, story);
    }
    if !is_explained {
        let first = expected.iter().zip(found).find(|(expected, found)| expected != found);
        let story = format!("{what}: {first:?} (expected, handled)");
        report.add("handled out of order", story);
    }
}

fn steps(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut accounts: BTreeMap<(&str, &str), (StepPromise, Account<'_>)> = BTreeMap::new();
    for remark in &inquiry.history.remarks {
        let Note::Step { run, step, promise, fence, phase } = &remark.note else { continue };
        let account = accounts.entry((run, step)).or_insert((*promise, Account::default()));
        account.1.note(remark.moment.seq, *fence, phase);
    }
    for ((run, step), (promise, account)) in accounts {
        let what = format!("step {step} of {run}");
        account.judge(&what, report);
        let recorded = (run.to_owned(), step.to_owned());
        let is_recorded = inquiry.audit.recorded.contains_key(&recorded);
        let (least, most) = match promise {
            StepPromise::AtLeastOnce => (1, usize::MAX),
            StepPromise::AtMostOnce => (0, 1),
            StepPromise::ExactlyOnce => (1, 1),
        };
        let has_landed = !account.landed.is_empty() || is_recorded;
        if account.effects > most || has_landed && account.effects < least {
            let story = format!("{what} has {} effects and is {promise:?}", account.effects);
            report.add("wrong number of effects", story);
        }
    }
}

/// Each step is recorded once, and each of a run that has ended with its effects.
fn recorded(inquiry: &Inquiry<'_>, report: &mut Report) {
    for ((run, step), count) in &inquiry.audit.recorded {
        if *count != 1 {
            let story = format!("step {step} of {run} is recorded {count} times");
            report.add("landed twice", story);
        }
    }
}

/// A run ends once: all callers are told the same, and the store says it too.
fn run_results(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut results: BTreeMap<&str, &str> = BTreeMap::new();
    for (run, result) in &inquiry.audit.runs {
        results.extend(result.as_ref().map(|result| (run.as_str(), result.as_str())));
    }
    for remark in &inquiry.history.remarks {
        let Note::RunEnded { run, result } = &remark.note else { continue };
        let known = results.entry(run).or_insert(result);
        if known != result {
            let story = format!("{run} ended with {known:?} and with {result:?}");
            report.add("ended twice", story);
        }
        if inquiry.audit.runs.get(run).is_some_and(Option::is_none) {
            let story = format!("{run} ended with {result:?}, and is open");
            report.add("ended twice", story);
        }
    }
}

/// Of each named effect exactly one is in the store, and all that were seen had one key.
fn effects(inquiry: &Inquiry<'_>, report: &mut Report) {
    for (what, count) in inquiry.audit.effects.iter().filter(|(_, count)| **count != 1) {
        let story = format!("{what} took effect {count} times");
        let anomaly = if *count == 0 { "lost effect" } else { "landed twice" };
        report.add(anomaly, story);
    }
    let mut keys: BTreeMap<&str, &str> = BTreeMap::new();
    for remark in &inquiry.history.remarks {
        let Note::Effect { what, key } = &remark.note else { continue };
        let known = keys.entry(what).or_insert(key);
        if known != key {
            let story = format!("{what}: {known:?} and {key:?}");
            report.add("effect under two keys", story);
        }
    }
}

/// A key has one result, and every claimant that is told one is told that.
fn key_results(inquiry: &Inquiry<'_>, report: &mut Report) {
    for operation in &inquiry.history.operations {
        let told: Vec<(&String, &String)> = match (&operation.action, &operation.outcome) {
            (Action::Acquire { rights, .. }, Outcome::Done(Answer::Result(result))) => {
                rights.iter().map(|right| (right, result)).collect()
            }
            (Action::Release { right, result: Some(result), .. }, Outcome::Done(_)) => {
                vec![(right, result)]
            }
            _ => continue,
        };
        for (right, result) in told {
            let stored = inquiry.audit.results.get(right);
            if stored.is_some_and(|stored| stored != result) {
                let story =
                    format!("{} said {result:?}, and {stored:?} is stored", operation.name());
                report.add("two results", story);
            }
        }
    }
}
