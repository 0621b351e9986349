//! Mutations of correct histories: one answer changed to one that a faulty store could have given.

use fastrand::Rng;

use crate::history::{
    Action, Answer, Audit, EventRef, History, Operation, Outcome, Part, PartAnswer, Slot,
};

/// One change; false if the history has nothing to change in this way.
pub(super) type Mutation = fn(&mut Rng, &mut History, &mut Audit) -> bool;

/// Every mutation, with the share of mutated histories that must fail, in percent.
pub(super) const MUTATIONS: [(&str, Mutation, u32); 12] = [
    ("an event is dropped from a page", drop_from_page, 100),
    ("an event is doubled in a page", double_in_page, 100),
    ("two events of a page are swapped", swap_in_page, 100),
    ("an event is dropped from a stream's read", drop_from_read, 100),
    ("an event is dropped from the final feed", drop_from_feed, 95),
    ("an event is doubled in the final feed", double_in_feed, 100),
    ("a stream is read as it was long before", stale_stream, 95),
    ("records are read as they were long before", stale_records, 90),
    ("an acknowledged commit is reported as refused", refuse, 90),
    ("the versions of two appends are swapped", swap_appends, 95),
    ("a right is granted under the fence before", old_fence, 95),
    ("a commit lands under the fence before", stale_fence, 90),
];

/// A random one of the values that can be picked.
fn pick<'a, T: 'a>(rng: &mut Rng, all: impl Iterator<Item = Option<T>>) -> Option<T> {
    let all: Vec<T> = all.flatten().collect();
    let count = all.len();
    all.into_iter().nth(rng.usize(..count.max(1)))
}

fn page(operation: &mut Operation) -> Option<&mut Vec<EventRef>> {
    match &mut operation.outcome {
        Outcome::Done(Answer::Page { events, .. }) if events.len() > 1 => Some(events),
        _ => None,
    }
}

fn drop_from_page(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let events = pick(rng, history.operations.iter_mut().map(page));
    events.map(|events| events.remove(rng.usize(..events.len()))).is_some()
}

fn double_in_page(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let events = pick(rng, history.operations.iter_mut().map(page));
    events.map(|events| events.insert(1, events[0].clone())).is_some()
}

fn swap_in_page(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let events = pick(rng, history.operations.iter_mut().map(page));
    events.map(|events| events.swap(0, 1)).is_some()
}

fn drop_from_read(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let read = |operation: &'_ mut Operation| match std::mem::replace(
        &mut operation.outcome,
        Outcome::Unknown("no reply".to_owned()),
    ) {
        Outcome::Done(Answer::Stream(read)) if read.events.len() > 1 => {
            operation.outcome = Outcome::Done(Answer::Stream(read));
            true
        }
        other => {
            operation.outcome = other;
            false
        }
    };
    let found = pick(rng, history.operations.iter_mut().map(|one| read(one).then_some(one)));
    let Some(Outcome::Done(Answer::Stream(read))) = found.map(|one| &mut one.outcome) else {
        return false;
    };
    read.events.remove(rng.usize(1..read.events.len()));
    true
}

fn drop_from_feed(rng: &mut Rng, _: &mut History, audit: &mut Audit) -> bool {
    let Some(feed) = audit.feed.as_mut().filter(|feed| !feed.is_empty()) else { return false };
    feed.remove(rng.usize(..feed.len()));
    true
}

fn double_in_feed(rng: &mut Rng, _: &mut History, audit: &mut Audit) -> bool {
    let Some(feed) = audit.feed.as_mut().filter(|feed| !feed.is_empty()) else { return false };
    let at = rng.usize(..feed.len());
    feed.insert(at, feed[at].clone());
    true
}

/// Replaces a read by one that ended before a later read of other content began.
fn stale(rng: &mut Rng, history: &mut History, is_one: impl Fn(&Operation) -> bool) -> bool {
    let reads: Vec<usize> =
        (0..history.operations.len()).filter(|at| is_one(&history.operations[*at])).collect();
    let pair = |late: usize| {
        let (late, all) = (&history.operations[late], &history.operations);
        let mut before = reads.iter().map(|early| &all[*early]).filter(|early| {
            let is_before = early.returned.is_some_and(|end| end.seq < late.invoked.seq);
            early.action == late.action && is_before && early.outcome != late.outcome
        });
        // Another read in between saw the newer content.
        before
            .find(|early| {
                reads.iter().map(|other| &all[*other]).any(|other| {
                    other.action == late.action
                        && other.outcome != early.outcome
                        && other.returned.is_some_and(|end| end.seq < late.invoked.seq)
                        && early.returned.is_some_and(|end| end.seq < other.invoked.seq)
                })
            })
            .map(|early| early.outcome.clone())
    };
    let found = pick(rng, reads.iter().map(|late| Some((*late, pair(*late)?))));
    let Some((late, outcome)) = found else { return false };
    history.operations[late].outcome = outcome;
    true
}

fn stale_stream(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    stale(rng, history, |one| matches!(one.outcome, Outcome::Done(Answer::Stream(_))))
}

fn stale_records(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    stale(rng, history, |one| match &one.outcome {
        Outcome::Done(Answer::Records(slots)) => !slots.contains(&Slot::Absent),
        _ => false,
    })
}

/// The parts and the answers of a commit that landed.
fn landed(operation: &mut Operation) -> Option<(&mut Vec<Part>, &mut Vec<PartAnswer>)> {
    match (&mut operation.action, &mut operation.outcome) {
        (Action::Commit(commit), Outcome::Done(Answer::Committed { parts, .. })) => {
            Some((&mut commit.parts, parts))
        }
        _ => None,
    }
}

fn refuse(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let writes = |one: &mut Operation| {
        let (parts, _) = landed(one)?;
        let writes = |part: &Part| matches!(part, Part::Append { .. } | Part::Write { .. });
        parts.iter().any(writes).then_some(())
    };
    let found = pick(rng, history.operations.iter_mut().map(|one| writes(one).map(|()| one)));
    let Some(operation) = found else { return false };
    operation.outcome = Outcome::Failed("full".to_owned());
    true
}

fn swap_appends(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let appended = |one: &mut Operation| {
        let (parts, answers) = landed(one)?;
        match (parts.first(), answers.first()) {
            (Some(Part::Append { stream, .. }), Some(PartAnswer::Appended { .. })) => {
                Some(stream.clone())
            }
            _ => None,
        }
    };
    let streams: Vec<Option<String>> = history.operations.iter_mut().map(appended).collect();
    let found = pick(rng, streams.iter().cloned());
    let Some(stream) = found else { return false };
    let of: Vec<usize> =
        (0..streams.len()).filter(|at| streams[*at].as_ref() == Some(&stream)).collect();
    let [one, .., other] = of[..] else { return false };
    let answer =
        |operation: &mut Operation| landed(operation).map(|(_, answers)| answers[0].clone());
    let (first, last) =
        (answer(&mut history.operations[one]), answer(&mut history.operations[other]));
    for (at, answer) in [(one, last), (other, first)] {
        if let (Some((_, answers)), Some(answer)) = (landed(&mut history.operations[at]), answer) {
            answers[0] = answer;
        }
    }
    true
}

fn old_fence(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    let granted = |one: &'_ mut Operation| match &mut one.outcome {
        Outcome::Done(Answer::Granted(grants)) if grants[0].fence > 1 => Some(()),
        _ => None,
    };
    let found = pick(rng, history.operations.iter_mut().map(|one| granted(one).map(|()| one)));
    let Some(Outcome::Done(Answer::Granted(grants))) = found.map(|one| &mut one.outcome) else {
        return false;
    };
    grants[0].fence -= 1;
    true
}

fn stale_fence(rng: &mut Rng, history: &mut History, _: &mut Audit) -> bool {
    // Only fences of which the grant was answered can be judged.
    let granted: Vec<(String, u64)> = history
        .operations
        .iter()
        .filter_map(|one| match one.answer()? {
            Answer::Granted(grants) => Some((grants[0].right.clone(), grants[0].fence)),
            _ => None,
        })
        .collect();
    let fenced = |one: &mut Operation| {
        let (parts, _) = landed(one)?;
        let known = |part: &Part| match part {
            Part::Fence { right, fence } => {
                *fence > 1 && granted.contains(&(right.clone(), fence - 1))
            }
            _ => false,
        };
        parts.iter().any(known).then_some(())
    };
    let found = pick(rng, history.operations.iter_mut().map(|one| fenced(one).map(|()| one)));
    let Some((parts, _)) = found.and_then(landed) else { return false };
    for part in parts {
        if let Part::Fence { fence, .. } = part {
            *fence -= 1;
        }
    }
    true
}
