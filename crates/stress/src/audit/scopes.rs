//! Scopes: is every acknowledged change on its board exactly once, where its answer said, and no
//! declined one; and do revisions grow with the content? (SCOPE-2, SCOPE-5, SCOPE-8, SCOPE-11)

use std::collections::{BTreeMap, HashMap, HashSet};

use tidelock::store::Revision;

use super::Inquiry;
use crate::board::{Board, Change, Wish};
use crate::finding::{Finding, Kind};
use crate::journal::Entry;

/// The content of an answer: the revision, and the sum or the length.
type Answer = (Revision, i64);

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let Some(boards) = &inquiry.evidence.boards else { return Vec::new() };
    let (answers, mut findings) = answers(inquiry);
    let declined = declined(inquiry);
    let mut wishes: BTreeMap<u64, Vec<&Wish>> = BTreeMap::new();
    for wish in wished(inquiry) {
        if !answers.contains_key(wish.id.as_str()) && !declined.contains(wish.id.as_str()) {
            findings.push(Finding::new(
                Kind::Unresolved,
                format!("change {:?} never got an answer", wish.id),
            ));
        }
        wishes.entry(wish.board).or_default().push(wish);
    }
    for (nth, wishes) in wishes {
        let Some((board, last)) = boards.get(&nth) else { continue };
        let done = wishes.iter().filter_map(|wish| Some((*wish, *answers.get(wish.id.as_str())?)));
        let done: Vec<(&Wish, Answer)> = done.collect();
        let found = misplaced(board, &done).into_iter().chain(not_wanted(board, &done, &declined));
        let found = found.chain(disorder(&done, *last));
        findings
            .extend(found.map(|(kind, what)| Finding::new(kind, format!("board {nth}: {what}"))));
    }
    findings
}

fn entries<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a Entry> {
    inquiry.evidence.journals.iter().flat_map(|(_, entries)| entries)
}

fn wished<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a Wish> {
    entries(inquiry).filter_map(|entry| match entry {
        Entry::Wished(wish) => Some(wish),
        _ => None,
    })
}

fn declined<'a>(inquiry: &Inquiry<'a>) -> HashSet<&'a str> {
    let declined = entries(inquiry).filter_map(|entry| match entry {
        Entry::Declined(id) => Some(id.as_str()),
        _ => None,
    });
    declined.collect()
}

/// The answers to changes, and contradictions among them.
fn answers<'a>(inquiry: &Inquiry<'a>) -> (HashMap<&'a str, Answer>, Vec<Finding>) {
    let (mut answers, mut findings) = (HashMap::new(), Vec::new());
    for entry in entries(inquiry) {
        let Entry::Changed { id, revision, value } = entry else { continue };
        let answer = (*revision, *value);
        let first = *answers.entry(id.as_str()).or_insert(answer);
        if first != answer {
            let what = format!("change {id:?} was answered with {first:?} and with {answer:?}");
            findings.push(Finding::new(Kind::Contradiction, what));
        }
    }
    (answers, findings)
}

/// The list that a change adds to.
fn list(board: &Board, change: Change) -> Option<&[String]> {
    match change {
        Change::Push | Change::Decline => Some(&board.pushed),
        Change::Swap(_) => Some(&board.swapped),
        Change::Increment => None,
    }
}

/// Acknowledged changes that are not where their answer said.
fn misplaced(board: &Board, done: &[(&Wish, Answer)]) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    for (wish, (_, value)) in done {
        let Some(list) = list(board, wish.change) else { continue };
        let count = list.iter().filter(|id| **id == wish.id).count();
        let place = usize::try_from(*value).ok().and_then(|value| list.get(value.checked_sub(1)?));
        match count {
            0 => found.push((Kind::LostCommit, format!("change {:?} is not there", wish.id))),
            1 if place == Some(&wish.id) => {}
            1 => found
                .push((Kind::Contradiction, format!("change {:?} is not number {value}", wish.id))),
            _ => found
                .push((Kind::DoneTwice, format!("change {:?} is there {count} times", wish.id))),
        }
    }
    let increments = done.iter().filter(|(wish, _)| wish.change == Change::Increment).count();
    if i64::try_from(increments).ok() != Some(board.count) {
        let what =
            format!("{increments} increments were acknowledged, and the count is {}", board.count);
        found.push((Kind::WrongTotal, what));
    }
    found
}

/// Changes on the board that were declined, or that no worker made.
fn not_wanted(
    board: &Board,
    done: &[(&Wish, Answer)],
    declined: &HashSet<&str>,
) -> Vec<(Kind, String)> {
    let known: HashSet<&str> = done.iter().map(|(wish, _)| wish.id.as_str()).collect();
    let strange =
        board.pushed.iter().chain(&board.swapped).filter(|id| !known.contains(id.as_str()));
    let tell = |id: &String| match declined.contains(id.as_str()) {
        true => (Kind::WrittenThoughRefused, format!("change {id:?} was declined, and is there")),
        false => (Kind::Unexplained, format!("change {id:?} is there, and was not acknowledged")),
    };
    strange.map(tell).collect()
}

/// Each change has its own revision, and revisions grow with sums and lengths.
fn disorder(done: &[(&Wish, Answer)], last: Option<Revision>) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    let mut in_order: Vec<&(&Wish, Answer)> = done.iter().collect();
    in_order.sort_by_key(|(_, (revision, _))| *revision);
    for pair in in_order.windows(2).filter(|pair| pair[0].1.0 == pair[1].1.0) {
        let what = format!("changes {:?} and {:?} have one revision", pair[0].0.id, pair[1].0.id);
        found.push((Kind::OutOfOrder, what));
    }
    if let Some((wish, (revision, _))) =
        in_order.last().filter(|(_, (revision, _))| Some(*revision) > last)
    {
        found.push((
            Kind::OutOfOrder,
            format!("change {:?} has revision {revision}, past {last:?}", wish.id),
        ));
    }
    let kinds =
        [|c| c == Change::Increment, |c| c == Change::Push, |c| matches!(c, Change::Swap(_))];
    for is_kind in kinds {
        let values = in_order.iter().filter(|(wish, _)| is_kind(wish.change)).zip(1..);
        for ((wish, (revision, value)), expected) in
            values.filter(|((_, (_, value)), nth)| value != nth)
        {
            let what =
                format!("change {:?}, {expected} by revision {revision}, is {value}", wish.id);
            found.push((Kind::OutOfOrder, what));
        }
    }
    found
}
