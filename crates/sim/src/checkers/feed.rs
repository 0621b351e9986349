//! The feed: order, no gaps, agreement of all followers, and every acknowledged event once.
//!
//! The final feed is the reference; without one, followers are only compared with each other.
//! `O(n log n)` in the events that were read.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cases::{Fate, trimmed};
use super::{Inquiry, Report};
use crate::history::{Action, Answer, EventRef, Operation, Outcome, Part, PartAnswer};

/// Checks every page, and the final feed.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    let pages = pages(inquiry);
    order(&pages, report);
    match &inquiry.audit.feed {
        Some(feed) => {
            whole_feed(feed, report);
            gaps(inquiry, feed, &pages, report);
            accounts(inquiry, feed, report);
        }
        None => agreement(&pages, report),
    }
    real_time(inquiry, report);
}

/// A page of the feed as a follower received it.
struct Page<'a> {
    follower: &'a str,
    prefix: &'a str,
    after: u64,
    next: u64,
    events: &'a [EventRef],
    operation: &'a Operation,
}

fn pages<'a>(inquiry: &Inquiry<'a>) -> Vec<Page<'a>> {
    let page = |operation: &'a Operation| match (&operation.action, &operation.outcome) {
        (
            Action::ReadFeed { follower, after, prefix },
            Outcome::Done(Answer::Page { events, next }),
        ) => {
            let (after, next) = (*after, *next);
            Some(Page { follower, prefix, after, next, events, operation })
        }
        _ => None,
    };
    inquiry.history.operations.iter().filter_map(page).collect()
}

/// The positions of a page grow, from where it was asked to begin to where it says to continue.
fn order(pages: &[Page<'_>], report: &mut Report) {
    for page in pages {
        let mut last = page.after;
        for event in page.events {
            if event.position <= last || event.position > page.next {
                let Page { after, next, operation, .. } = page;
                let EventRef { id, position, .. } = event;
                let story = format!(
                    "{}: event {id} at {position} comes after {last}, in the page from {after} to {next}",
                    operation.name()
                );
                report.add("feed out of order", story);
            }
            last = event.position;
        }
        if page.next < page.after {
            let story = format!("{}: continues at {}", page.operation.name(), page.next);
            report.add("feed out of order", story);
        }
    }
}

/// The final feed contains each event once, in order.
fn whole_feed(feed: &[EventRef], report: &mut Report) {
    let mut seen = HashMap::new();
    for event in feed {
        if let Some(before) = seen.insert(event.id.as_str(), event.position) {
            let story = format!("event {} is at {before} and at {}", event.id, event.position);
            report.add("event twice in the feed", story);
        }
    }
    for pair in feed.windows(2).filter(|pair| pair[1].position <= pair[0].position) {
        let story = format!(
            "event {} at {} comes after event {} at {}",
            pair[1].id, pair[1].position, pair[0].id, pair[0].position
        );
        report.add("feed out of order", story);
    }
    let mut versions: HashMap<&str, u64> = HashMap::new();
    for event in feed {
        let before = versions.insert(&event.stream, event.version);
        if before.is_some_and(|before| before >= event.version) {
            let story = format!("{} has version {} after {before:?}", event.stream, event.version);
            report.add("feed out of order", story);
        }
    }
}

/// Each follower saw everything between where it began and where it ended: each page what the final
/// feed has there, and the next page begins where the last one ended.
fn gaps(inquiry: &Inquiry<'_>, feed: &[EventRef], pages: &[Page<'_>], report: &mut Report) {
    let trimmed = trimmed(inquiry.history);
    let mut followers: BTreeMap<&str, u64> = BTreeMap::new();
    for page in pages {
        // A follower may go back to where it was before, and never ahead.
        let reached = followers.entry(page.follower).or_insert(page.after);
        if page.after > *reached {
            let story = format!("{} begins after {reached}", page.operation.name());
            report.add("follower skips", story);
        }
        *reached = (*reached).max(page.next);
        let from = feed.partition_point(|event| event.position <= page.after);
        let until = feed.partition_point(|event| event.position <= page.next);
        let expected = feed.get(from..until).unwrap_or(&[]);
        compare(page, expected.iter(), |event| trimmed.contains(event.stream.as_str()), report);
    }
}

/// What a follower saw is what is there, except for what was trimmed since.
fn compare<'a>(
    page: &Page<'_>,
    expected: impl Iterator<Item = &'a EventRef>,
    is_trimmed: impl Fn(&EventRef) -> bool,
    report: &mut Report,
) {
    let mut seen = page.events.iter().filter(|event| !is_trimmed(event));
    let passes = |event: &&EventRef| event.stream.starts_with(page.prefix) && !is_trimmed(event);
    for event in expected.filter(passes) {
        let (anomaly, story) = match seen.next() {
            Some(other) if other == event => continue,
            Some(other) if other.position <= event.position => {
                ("followers disagree", format!("contained {other:?}, where {event:?} is"))
            }
            _ => ("follower skips", format!("did not contain {event:?}")),
        };
        report.add(anomaly, format!("{} {story}", page.operation.name()));
        return;
    }
    if let Some(event) = seen.next() {
        let story = format!("{} contained {event:?}", page.operation.name());
        report.add("followers disagree", story);
    }
}

/// Followers that read the same span saw the same.
fn agreement(pages: &[Page<'_>], report: &mut Report) {
    let mut at: BTreeMap<u64, &EventRef> = BTreeMap::new();
    for event in pages.iter().flat_map(|page| page.events) {
        let known = at.entry(event.position).or_insert(event);
        if *known != event {
            let story = format!("one follower saw {known:?}, another {event:?}");
            report.add("followers disagree", story);
        }
    }
    for page in pages.iter().filter(|page| page.after < page.next) {
        let span = at.range(page.after + 1..=page.next).map(|(_, event)| *event);
        compare(page, span, |_| false, report);
    }
}

/// Every acknowledged event is in the final feed as acknowledged, and none of a refused commit is.
fn accounts(inquiry: &Inquiry<'_>, feed: &[EventRef], report: &mut Report) {
    let there: HashMap<&str, &EventRef> =
        feed.iter().map(|event| (event.id.as_str(), event)).collect();
    let trimmed = trimmed(inquiry.history);
    let mut landed: HashSet<&str> = HashSet::new();
    for case in inquiry.cases.iter().filter(|case| !matches!(case.fate, Fate::Never)) {
        landed.extend(case.events());
    }
    for case in &inquiry.cases {
        if matches!(case.fate, Fate::Never)
            && let Some(id) =
                case.events().find(|id| there.contains_key(id) && !landed.contains(id))
        {
            let story = format!("event {id} is in the feed, and {} was refused", case.name);
            report.add("written though refused", story);
        }
        for (part, answer) in case.parts() {
            let (Part::Append { stream, events, .. }, PartAnswer::Appended { version, .. }) =
                (part, answer)
            else {
                continue;
            };
            let count = events.len() as u64;
            for (nth, id) in (1..).zip(events) {
                let expected = (version + nth).saturating_sub(count);
                let found = there.get(id.as_str());
                let is_lost = found.is_none() && !trimmed.contains(stream.as_str());
                let differs =
                    found.is_some_and(|event| event.version != expected || event.stream != *stream);
                if is_lost || differs {
                    let story = format!(
                        "{}: event {id} was acknowledged as version {expected}, and the feed has {found:?}",
                        case.name
                    );
                    report.add("lost event", story);
                }
            }
        }
    }
    if inquiry.history.operations.iter().any(|one| matches!(one.action, Action::Commit(_))) {
        let orphan = feed.iter().find(|event| !landed.contains(event.id.as_str()));
        if let Some(event) = orphan.filter(|_| inquiry.audit.all_commits) {
            let story = format!("{event:?} belongs to no commit");
            report.add("unexplained event", story);
        }
    }
}

/// A commit that began after another was acknowledged has higher positions, and nothing appears at
/// or before a position that a follower was given.
fn real_time(inquiry: &Inquiry<'_>, report: &mut Report) {
    // (moment, 0 = begins, position, name): ends count before begins of later moments only.
    let mut moments: Vec<(u64, bool, u64, &str)> = Vec::new();
    for case in &inquiry.cases {
        for (_, answer) in case.parts() {
            let PartAnswer::Appended { positions: Some((first, last)), replayed: false, .. } =
                answer
            else {
                continue;
            };
            moments.push((case.invoked, false, *first, &case.name));
            moments.extend(case.returned.map(|end| (end, true, *last, case.name.as_str())));
        }
    }
    for page in pages(inquiry) {
        let end = page.operation.returned.map(|end| end.seq);
        moments.extend(end.map(|end| (end, true, page.next, page.follower)));
    }
    moments.sort_unstable();
    let mut highest: Option<(u64, &str)> = None;
    for (_, ends, position, name) in moments {
        if ends {
            highest = highest.max(Some((position, name)));
        } else if let Some((given, other)) = highest.filter(|(given, _)| *given >= position) {
            let story = format!("{name} has position {position}, and {other} had {given} before");
            report.add("position in the past", story);
        }
    }
}
