//! Work: was every event drained exactly once, in order, by the holder of its item; and is nothing
//! left? (LEASE-3, LEASE-5)

use tidelock::store::{Item, Mark, StoredEvent};

use super::Inquiry;
use crate::finding::{Finding, Kind};
use crate::roles::Drained;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let mut findings = unattended(inquiry);
    for item in &inquiry.evidence.items {
        findings.extend(left_over(inquiry, item));
        findings.extend(drains(inquiry, item));
    }
    findings
}

fn written(inquiry: &Inquiry<'_>, item: &Item) -> u64 {
    let stream = inquiry.evidence.space.work_of(&item.item);
    inquiry.evidence.streams.get(&stream).map_or(0, |events| events.len() as u64)
}

/// Streams of work without an item.
fn unattended(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let evidence = inquiry.evidence;
    let known: Vec<_> =
        evidence.items.iter().map(|item| evidence.space.work_of(&item.item)).collect();
    let lost = evidence
        .streams
        .keys()
        .filter(|stream| evidence.space.is_work(stream) && !known.contains(stream));
    lost.map(|stream| Finding::new(Kind::Undrained, format!("stream {stream:?} has no item")))
        .collect()
}

/// An item that is held, due or behind after all workers have ended.
fn left_over(inquiry: &Inquiry<'_>, item: &Item) -> Vec<Finding> {
    let written = written(inquiry, item);
    let mut findings = Vec::new();
    if let Some(holder) = &item.holder {
        let what =
            format!("{} is held by {:?} until {}", item.item, holder.worker, holder.deadline);
        findings.push(Finding::new(Kind::StuckLease, what));
    }
    if item.at.get() != written || item.due.is_some() || item.blocked {
        let what = format!(
            "{} is done up to {} of {written}, with its mark at {}, due {:?}",
            item.item, item.at, item.mark, item.due
        );
        findings.push(Finding::new(Kind::Undrained, what));
    }
    findings
}

/// The drains of an item follow one another without gap or overlap, under growing fences.
fn drains(inquiry: &Inquiry<'_>, item: &Item) -> Vec<Finding> {
    let stream = inquiry.evidence.space.done_of(&item.item);
    let mut findings = Vec::new();
    let mut last = None;
    for event in inquiry.evidence.streams.get(&stream).into_iter().flatten() {
        let drained = match event.payload.to::<Drained>() {
            Ok(drained) => drained,
            Err(e) => {
                return vec![Finding::new(Kind::Unexplained, format!("event {}: {e}", event.id))];
            }
        };
        findings.extend(misfit(item, last, drained).map(|(kind, what)| Finding::new(kind, what)));
        findings.extend(unheld(inquiry, item, event, drained));
        last = Some(drained);
    }
    let (done, written) = (through(last), written(inquiry, item));
    if done.get() != written {
        let what =
            format!("{} was drained up to {done}, and {written} events are there", item.item);
        findings.push(Finding::new(Kind::Undrained, what));
    }
    findings
}

fn through(last: Option<Drained>) -> Mark {
    last.map_or(Mark::ZERO, |drained| drained.through)
}

fn misfit(item: &Item, last: Option<Drained>, next: Drained) -> Option<(Kind, String)> {
    let before = through(last);
    let under = format!("of {} after {} under fence {}", item.item, next.after, next.fence);
    if next.after < before {
        return Some((
            Kind::DrainedTwice,
            format!("events {under}; they were drained up to {before} before"),
        ));
    }
    if next.after > before {
        return Some((
            Kind::Undrained,
            format!("events {under}; they were drained only up to {before} before"),
        ));
    }
    let stale = last.filter(|last| last.fence >= next.fence)?;
    Some((Kind::Overlap, format!("drain {under} came after one under fence {}", stale.fence)))
}

/// A drain without a granted lease.
fn unheld(
    inquiry: &Inquiry<'_>,
    item: &Item,
    event: &StoredEvent,
    drained: Drained,
) -> Option<Finding> {
    let held = inquiry.ledger.grants.contains_key(&(&item.item, drained.fence));
    let what = || {
        format!(
            "event {} drains {} under fence {}, which no worker held",
            event.id, item.item, drained.fence
        )
    };
    (!held).then(|| Finding::new(Kind::Unexplained, what()))
}
