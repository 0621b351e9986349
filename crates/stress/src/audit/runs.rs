//! Runs: did every requested run complete, once, with nothing after its end; is every step recorded
//! once; was every effect made as often as its step allows, under one key; and do all callers have
//! the recorded result? (schedules 35, 36 and 88)

use std::collections::{BTreeSet, HashMap};

use serde::de::DeserializeOwned;
use tidelock::store::StoredEvent;

use super::Inquiry;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;
use crate::sample_run::{AT_LEAST_ONCE, COUNT, Completed, DONE, Recorded, SEND, STEPS};

/// The keys of the outside effects of each step, once per effect.
type Deeds<'a> = HashMap<(&'a str, &'a str), Vec<&'a str>>;

/// A finding, if there is one.
type Found = Option<(Kind, String)>;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let Some(run_audit) = &inquiry.evidence.run_audit else { return Vec::new() };
    let (deeds, told) = (deeds(inquiry), told(inquiry));
    let open = run_audit
        .open
        .iter()
        .map(|run| Finding::new(Kind::Unfinished, format!("run {run:?} is open")));
    let mut findings: Vec<Finding> = open.collect();
    findings.extend(lost(inquiry));
    findings.extend(strange(inquiry, &deeds));
    for (run, history) in &run_audit.histories {
        let counted = run_audit.counted.get(run).copied().unwrap_or(0);
        let steps = STEPS.iter().map(|step| recorded(history, step));
        let keys = AT_LEAST_ONCE.iter().map(|step| not_one_key(&deeds, run, step));
        let rest = [ended(history), counts(counted), not_at_most_once(&deeds, run, history)];
        let all = rest
            .into_iter()
            .chain(steps)
            .chain(keys)
            .chain(contradicted(&told, run, history))
            .flatten();
        findings.extend(all.map(|(kind, what)| Finding::new(kind, format!("run {run:?}: {what}"))));
    }
    findings
}

fn entries<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a Entry> {
    inquiry.evidence.journals.iter().flat_map(|(_, entries)| entries)
}

fn deeds<'a>(inquiry: &Inquiry<'a>) -> Deeds<'a> {
    let mut deeds = Deeds::new();
    for entry in entries(inquiry) {
        if let Entry::Acted { run, step, key } = entry {
            deeds.entry((run, step)).or_default().push(key);
        }
    }
    deeds
}

/// The results that workers were told.
fn told<'a>(inquiry: &Inquiry<'a>) -> HashMap<&'a str, &'a str> {
    let told = entries(inquiry).filter_map(|entry| match entry {
        Entry::Told { run, result } => Some((run.as_str(), result.as_str())),
        _ => None,
    });
    told.collect()
}

/// Requested runs that are not in the store.
fn lost(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let there = inquiry.evidence.run_audit.as_ref().map(|run_audit| &run_audit.histories);
    let lost = entries(inquiry).filter_map(|entry| match entry {
        Entry::Ordered(run) if there.is_some_and(|there| !there.contains_key(run)) => Some(run),
        _ => None,
    });
    lost.map(|run| {
        Finding::new(Kind::Unfinished, format!("run {run:?} was requested and does not exist"))
    })
    .collect()
}

/// Effects of runs that are not in the store.
fn strange(inquiry: &Inquiry<'_>, deeds: &Deeds<'_>) -> Vec<Finding> {
    let there = inquiry.evidence.run_audit.as_ref().map(|run_audit| &run_audit.histories);
    let strange =
        deeds.keys().filter(|(run, _)| there.is_some_and(|there| !there.contains_key(*run)));
    let tell = |(run, step): &(&str, &str)| {
        format!("step {step:?} of run {run:?}, which is not there, was done")
    };
    strange.map(|deed| Finding::new(Kind::Unexplained, tell(deed))).collect()
}

/// The payloads of the entries of this type.
fn said<T: DeserializeOwned>(history: &[StoredEvent], event_type: &str) -> Vec<T> {
    let meant = history.iter().filter(|event| event.event_type.as_str() == event_type);
    meant.filter_map(|event| event.payload.to().ok()).collect()
}

fn ended(history: &[StoredEvent]) -> Found {
    let is_end = |event: &StoredEvent| event.event_type.as_str() == "~completed";
    match history.iter().position(is_end) {
        None => Some((Kind::Unfinished, format!("it has {} entries, and no end", history.len()))),
        Some(end) if end + 1 < history.len() => Some((
            Kind::AfterTheEnd,
            format!("entry {} is its end, and {} are there", end + 1, history.len()),
        )),
        Some(_) => None,
    }
}

fn recorded(history: &[StoredEvent], step: &str) -> Found {
    let records = said::<Recorded>(history, "~step");
    let count = records.iter().filter(|record| record.name == step).count();
    (count > 1).then(|| (Kind::RecordedTwice, format!("step {step:?}, {count} times")))
}

fn counts(counted: i64) -> Found {
    (counted != 1)
        .then(|| (Kind::WrongTotal, format!("step {COUNT:?} is in the store {counted} times")))
}

fn not_one_key(deeds: &Deeds<'_>, run: &str, step: &str) -> Found {
    let keys: BTreeSet<&str> = deeds.get(&(run, step)).into_iter().flatten().copied().collect();
    let expected = format!("{run}:{step}");
    let is_so = keys.len() == 1 && keys.contains(expected.as_str());
    (!is_so).then(|| (Kind::WrongEffect, format!("step {step:?} was done under {keys:?}")))
}

fn not_at_most_once(deeds: &Deeds<'_>, run: &str, history: &[StoredEvent]) -> Found {
    let done = deeds.get(&(run, SEND)).map_or(0, Vec::len);
    let records = said::<Recorded>(history, "~step");
    let is_said = records.iter().any(|record| record.name == SEND && record.result == DONE);
    match done {
        0 if is_said => {
            Some((Kind::WrongEffect, format!("step {SEND:?} was not done, and says that it was")))
        }
        0 | 1 => None,
        _ => Some((Kind::DoneTwice, format!("step {SEND:?}, {done} times"))),
    }
}

fn contradicted(told: &HashMap<&str, &str>, run: &str, history: &[StoredEvent]) -> [Found; 1] {
    let recorded = said::<Completed>(history, "~completed").pop();
    let told =
        told.get(run).filter(|told| recorded.as_ref().is_some_and(|there| there.result != **told));
    [told.map(|told| {
        (Kind::Contradiction, format!("a worker was told {told:?}, but {recorded:?} is recorded"))
    })]
}
