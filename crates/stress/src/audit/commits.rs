//! Commits: is every acknowledged commit in the store, whole and as acknowledged; is no refused
//! commit there; and does every stored event belong to a commit? (COMMIT-1, COMMIT-4, COMMIT-5,
//! COMMIT-6)

use std::collections::HashSet;

use tidelock::store::{Append, Appended, Commit, Committed, EventId, StoredEvent};

use super::Inquiry;
use crate::finding::{Finding, Kind};
use crate::ledger::Case;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let mut findings = unexplained(inquiry);
    for (id, case) in &inquiry.ledger.cases {
        let name = format!("commit {id} of {}", case.who);
        findings
            .extend(answers(case).map(|(kind, what)| Finding::new(kind, format!("{name} {what}"))));
        findings.extend(
            presence(inquiry, case)
                .map(|(kind, what)| Finding::new(kind, format!("{name} {what}"))),
        );
    }
    findings
}

/// Whether the answers to a commit agree with each other.
fn answers(case: &Case<'_>) -> Option<(Kind, String)> {
    let first = case.acked();
    if !case.is_answered() {
        return Some((Kind::Unresolved, "never got an answer".to_owned()));
    }
    if first.is_some() && case.refused().is_some() {
        return Some((Kind::Contradiction, "was acknowledged, and refused".to_owned()));
    }
    if let Some(other) = case.acks().find(|ack| Some(*ack) != first) {
        return Some((
            Kind::Contradiction,
            format!("was acknowledged as {first:?} and as {other:?}"),
        ));
    }
    case.broke_its_word().then(|| {
        (Kind::BrokenPromise, "was written, though the error said that nothing was".to_owned())
    })
}

/// Whether the store agrees with the answers.
fn presence(inquiry: &Inquiry<'_>, case: &Case<'_>) -> Option<(Kind, String)> {
    let ids: Vec<EventId> = events(case.commit).collect();
    let found = ids.iter().filter(|id| inquiry.there.contains_key(id)).count();
    match (found, case.acked()) {
        _ if ids.is_empty() => None,
        (0, Some(_)) => Some((Kind::LostCommit, "was acknowledged, and is not there".to_owned())),
        (0, None) => None,
        (found, _) if found < ids.len() => {
            Some((Kind::HalfCommit, format!("is there by half: {found} of {} events", ids.len())))
        }
        (_, None) if case.refused().is_some() => {
            Some((Kind::WrittenThoughRefused, "was refused, and is there".to_owned()))
        }
        (_, None) => None,
        (_, Some(committed)) => misplaced(inquiry, case.commit, committed),
    }
}

/// Whether its events are elsewhere than the answer said.
fn misplaced(
    inquiry: &Inquiry<'_>,
    commit: &Commit,
    committed: &Committed,
) -> Option<(Kind, String)> {
    let differs = |(append, appended): (&Append, &Appended)| {
        let first = inquiry.there[&append.events.first()?.id];
        let last = inquiry.there[&append.events.last()?.id];
        let as_said = last.stream == append.stream
            && last.version == appended.version
            && appended.positions == Some((first.position, last.position));
        (!as_said)
            .then(|| format!("was acknowledged as {appended:?}, and its last event is {last:?}"))
    };
    let what = commit.appends.iter().zip(&committed.appends).find_map(differs)?;
    Some((Kind::Contradiction, what))
}

/// Events that no worker tried to write.
fn unexplained(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let cases = inquiry.ledger.cases.values();
    let tried: HashSet<EventId> = cases.flat_map(|case| events(case.commit)).collect();
    let strange = inquiry.evidence.feed.iter().filter(|event| !tried.contains(&event.id));
    let tell = |event: &StoredEvent| {
        format!(
            "event {} is version {} of stream {:?}, and no worker wrote it",
            event.id, event.version, event.stream
        )
    };
    strange.map(|event| Finding::new(Kind::Unexplained, tell(event))).collect()
}

fn events(commit: &Commit) -> impl Iterator<Item = EventId> + '_ {
    commit.appends.iter().flat_map(|append| &append.events).map(|event| event.id)
}

/// Acknowledged commits: those that are known to have happened.
pub(super) fn happened<'a>(
    inquiry: &Inquiry<'a>,
) -> impl Iterator<Item = (&'a Commit, &'a Committed)> {
    let cases = inquiry.ledger.cases.values();
    cases.filter_map(|case| case.acked().map(|committed| (case.commit, committed)))
}
