//! Cases: each commit with everything that was asked and answered about it.
//!
//! A commit that was sent several times under its id is one case; of different commits under one id
//! at most one lands. Where no send was answered, the
//! final feed decides: a commit whose events are there has landed, and one whose events are not has
//! not, unless its streams were trimmed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::Report;
use crate::history::{
    Action, Answer, Audit, Commit, EventRef, Expected, History, Operation, Outcome, Part,
    PartAnswer,
};

/// How long an id is remembered at least, in microseconds.
const ID_MEMORY: i64 = 3_600_000_000;

/// A commit, sent once or more.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) commit: &'a Commit,
    pub(super) name: String,
    /// A moment before it landed.
    pub(super) invoked: u64,
    /// A moment after it landed, if there is one.
    pub(super) returned: Option<u64>,
    pub(super) fate: Fate<'a>,
}

/// What became of a commit.
#[derive(Debug)]
pub(super) enum Fate<'a> {
    Landed {
        /// When, by the store's clock.
        at: Option<i64>,
        parts: Cow<'a, [PartAnswer]>,
    },
    Unknown,
    Never,
}

impl<'a> Case<'a> {
    pub(super) fn has_landed(&self) -> bool {
        matches!(self.fate, Fate::Landed { .. })
    }

    /// The ids of all its events.
    pub(super) fn events(&self) -> impl Iterator<Item = &str> {
        events(self.commit)
    }

    /// The last versions of its appends, if it has landed.
    fn versions(&self) -> impl Iterator<Item = (&'a str, u64)> {
        self.parts().filter_map(|(part, answer)| match (part, answer) {
            (
                Part::Append { stream, .. },
                PartAnswer::Appended { version, replayed: false, .. },
            ) => Some((stream.as_str(), *version)),
            _ => None,
        })
    }

    /// Its parts with their answers, if it has landed.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'a Part, &PartAnswer)> {
        let answers: &[PartAnswer] = match &self.fate {
            Fate::Landed { parts, .. } => parts,
            Fate::Unknown | Fate::Never => &[],
        };
        let rest = std::iter::repeat(&PartAnswer::Held);
        self.commit.parts.iter().zip(answers.iter().chain(rest)).filter(|_| self.has_landed())
    }
}

fn events(commit: &Commit) -> impl Iterator<Item = &str> {
    commit
        .parts
        .iter()
        .flat_map(|part| match part {
            Part::Append { events, .. } => events.as_slice(),
            _ => &[],
        })
        .map(String::as_str)
}

/// The streams of which events were removed, or may have been.
pub(super) fn trimmed(history: &History) -> HashSet<&str> {
    let commits = history.operations.iter().filter_map(|one| match &one.action {
        Action::Commit(commit) => Some(commit),
        _ => None,
    });
    let streams = commits.flat_map(|commit| &commit.parts).filter_map(|part| match part {
        Part::Trim { stream, .. } => Some(stream.as_str()),
        _ => None,
    });
    streams.collect()
}

/// Collects the cases, and reports answers that contradict each other.
pub(super) fn collect<'a>(
    history: &'a History,
    audit: &'a Audit,
    report: &mut Report,
) -> Vec<Case<'a>> {
    let mut groups: Vec<(&Commit, Vec<&Operation>)> = Vec::new();
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for operation in &history.operations {
        let Action::Commit(commit) = &operation.action else { continue };
        let under_id = commit.id.as_deref().map(|id| by_id.entry(id).or_default());
        let sent_before = under_id.as_ref().and_then(|groups_of_id| {
            groups_of_id.iter().copied().find(|group| groups[*group].0.parts == commit.parts)
        });
        let group = sent_before.unwrap_or(groups.len());
        if sent_before.is_none() {
            groups.push((commit, Vec::new()));
            under_id.into_iter().for_each(|groups_of_id| groups_of_id.push(group));
        }
        groups[group].1.push(operation);
    }
    let trimmed = trimmed(history);
    let there: Option<HashMap<&str, &EventRef>> = audit
        .feed
        .as_ref()
        .map(|feed| feed.iter().map(|event| (event.id.as_str(), event)).collect());
    let case = |(commit, sends): (&'a Commit, Vec<&'a Operation>)| {
        contradictions(&sends, report);
        judge(commit, &sends)
    };
    let mut cases: Vec<Case<'a>> = groups.into_iter().map(case).collect();
    by_id.values().for_each(|of_id| exclude(of_id, &mut cases, report));
    if let Some(there) = &there {
        let elsewhere = written_elsewhere(&cases, there);
        for (case, elsewhere) in cases.iter_mut().zip(elsewhere) {
            match (&case.fate, elsewhere) {
                (Fate::Unknown, Author::Alone) => resolve(case, there, &trimmed, report),
                (Fate::Unknown, Author::Another) => case.fate = Fate::Never,
                _ => {}
            }
        }
    }
    bound(&mut cases, history);
    cases
}

/// Which commit wrote the events of a commit of unknown outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    /// This one, if they are there.
    Alone,
    /// Another one, which has the same events.
    Another,
    /// This one, or another one of unknown outcome with the same events.
    Unclear,
}

/// The same events can be in several commits without an id, or with different expectations: one of
/// them wrote the events, and the others found them there.
fn written_elsewhere(cases: &[Case<'_>], there: &HashMap<&str, &EventRef>) -> Vec<Author> {
    let mut written: HashSet<&str> = HashSet::new();
    let mut possible: HashMap<&str, usize> = HashMap::new();
    for case in cases {
        match &case.fate {
            Fate::Landed { parts, .. } => {
                for (part, answer) in case.commit.parts.iter().zip(parts.iter()) {
                    if let (
                        Part::Append { events, .. },
                        PartAnswer::Appended { replayed: false, .. },
                    ) = (part, answer)
                    {
                        written.extend(events.iter().map(String::as_str));
                    }
                }
            }
            Fate::Unknown if fits(case.commit, there) => {
                case.events().for_each(|id| *possible.entry(id).or_default() += 1);
            }
            _ => {}
        }
    }
    let author = |case: &Case<'_>| {
        if case.events().any(|id| written.contains(id)) || !fits(case.commit, there) {
            Author::Another
        } else if case.events().any(|id| possible.get(id).is_some_and(|count| *count > 1)) {
            Author::Unclear
        } else {
            Author::Alone
        }
    };
    cases.iter().map(author).collect()
}

/// Whether the events that are there are where this commit would have written them.
fn fits(commit: &Commit, there: &HashMap<&str, &EventRef>) -> bool {
    commit.parts.iter().all(|part| match part {
        Part::Append { expected: Expected::Exactly(version), events, .. } => {
            let first = events.first().and_then(|id| there.get(id.as_str()));
            first.is_none_or(|first| first.version == version + 1)
        }
        _ => true,
    })
}

/// Bounds commits that landed without an answer: before the first read of their stream that found
/// their version or a later one, and before the first acknowledged commit with a later version.
fn bound<'a>(cases: &mut [Case<'a>], history: &'a History) {
    let read = |operation: &'a Operation| match (&operation.action, operation.answer()?) {
        (Action::ReadStream { stream, .. }, Answer::Stream(read)) => {
            Some((stream.as_str(), read.version?, operation.returned?.seq))
        }
        _ => None,
    };
    let written = cases.iter().flat_map(|case| {
        let end = case.returned.unwrap_or(u64::MAX);
        case.versions().map(move |(stream, version)| (stream, version, end))
    });
    let mut ends: HashMap<&str, BTreeMap<u64, u64>> = HashMap::new();
    for (stream, version, end) in history.operations.iter().filter_map(read).chain(written) {
        let known = ends.entry(stream).or_default().entry(version).or_insert(end);
        *known = end.min(*known);
    }
    // A read that finds a version finds all before it.
    for ends in ends.values_mut() {
        let mut earliest = u64::MAX;
        for end in ends.values_mut().rev() {
            earliest = earliest.min(*end);
            *end = earliest;
        }
    }
    for case in cases.iter_mut().filter(|case| case.has_landed() && case.returned.is_none()) {
        let end = |(stream, version)| ends.get(stream)?.range(version..).next().map(|one| *one.1);
        let end = case.versions().filter_map(end).min();
        case.returned = end.filter(|end| *end < u64::MAX);
    }
}

fn landed(operation: &Operation) -> Option<(i64, &[PartAnswer])> {
    match operation.answer()? {
        Answer::Committed { at, parts } => Some((*at, parts)),
        _ => None,
    }
}

fn judge<'a>(commit: &'a Commit, sends: &[&'a Operation]) -> Case<'a> {
    let may_land =
        |one: &&&Operation| matches!(one.outcome, Outcome::Done(_) | Outcome::Unknown(_));
    let first = sends.iter().find(may_land).unwrap_or(&sends[0]);
    let done = sends.iter().filter(|one| landed(one).is_some());
    let done = done.min_by_key(|one| one.returned.map_or(u64::MAX, |moment| moment.seq));
    let fate = match done.and_then(|one| landed(one)) {
        Some((at, parts)) => Fate::Landed { at: Some(at), parts: Cow::Borrowed(parts) },
        None if sends.iter().any(|one| matches!(one.outcome, Outcome::Unknown(_))) => Fate::Unknown,
        None => Fate::Never,
    };
    let returned = done.and_then(|one| Some(one.returned?.seq));
    Case { commit, name: first.name(), invoked: first.invoked.seq, returned, fate }
}

/// Of several commits under one id, one lands.
fn exclude(of_id: &[usize], cases: &mut [Case<'_>], report: &mut Report) {
    let Some(landed) = of_id.iter().copied().find(|case| cases[*case].has_landed()) else { return };
    for other in of_id.iter().copied().filter(|other| *other != landed) {
        if cases[other].has_landed() {
            let (one, other) = (&cases[landed].name, &cases[other].name);
            report.add("contradiction", format!("{one} and {other} landed under one id"));
        }
        cases[other].fate = Fate::Never;
    }
}

/// All acknowledgements of a commit are alike, and it is not refused once it has landed.
fn contradictions(sends: &[&Operation], report: &mut Report) {
    let Some(first) = sends.iter().find(|one| landed(one).is_some()) else { return };
    let (at, parts) = landed(first).expect("it was found by this");
    for other in sends {
        let story = match (&other.outcome, landed(other)) {
            (_, Some((other_at, others))) if other_at != at || !are_alike(parts, others) => {
                format!(
                    "{} was acknowledged as {parts:?} at {at} and as {others:?} at {other_at}",
                    other.name()
                )
            }
            (Outcome::Refused(why), _) if is_after(other, first, at) => {
                format!("{} was refused ({why:?}) after {} landed", other.name(), first.name())
            }
            _ => continue,
        };
        report.add("contradiction", story);
    }
}

fn is_after(other: &Operation, first: &Operation, at: i64) -> bool {
    let in_memory = other.returned.and_then(|end| end.at).is_none_or(|end| end < at + ID_MEMORY);
    in_memory && first.returned.is_some_and(|end| end.seq < other.invoked.seq)
}

fn are_alike(ones: &[PartAnswer], others: &[PartAnswer]) -> bool {
    let without_replay = |answer: &PartAnswer| match answer {
        PartAnswer::Appended { version, positions, .. } => {
            PartAnswer::Appended { version: *version, positions: *positions, replayed: false }
        }
        other => other.clone(),
    };
    ones.iter().map(without_replay).eq(others.iter().map(without_replay))
}

/// Decides an unknown outcome by the final feed.
fn resolve(
    case: &mut Case<'_>,
    there: &HashMap<&str, &EventRef>,
    trimmed: &HashSet<&str>,
    report: &mut Report,
) {
    let is_trimmed = case.commit.parts.iter().any(
        |part| matches!(part, Part::Append { stream, .. } if trimmed.contains(stream.as_str())),
    );
    let (all, found) = case
        .events()
        .fold((0, 0), |(all, found), id| (all + 1, found + usize::from(there.contains_key(id))));
    if all == 0 || is_trimmed {
        return;
    }
    if found == 0 {
        case.fate = Fate::Never;
        return;
    }
    if found < all {
        let story = format!("{}: {found} of its {all} events are in the store", case.name);
        report.add("half a commit", story);
    }
    let answer = |part: &Part| match part {
        Part::Append { events, .. } => appended(events, there),
        _ => PartAnswer::Held,
    };
    let parts = Cow::Owned(case.commit.parts.iter().map(answer).collect());
    case.fate = Fate::Landed { at: None, parts };
}

fn appended(events: &[String], there: &HashMap<&str, &EventRef>) -> PartAnswer {
    let found = |id: &String| there.get(id.as_str());
    let (Some(first), Some(last)) = (events.first().and_then(found), events.last().and_then(found))
    else {
        return PartAnswer::Held;
    };
    let positions = Some((first.position, last.position));
    PartAnswer::Appended { version: last.version, positions, replayed: false }
}
