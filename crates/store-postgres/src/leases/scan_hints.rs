//! Scan hints: where in the index of ready items the last scan found something.
//!
//! An item that is leased or settled leaves its place in the index. The dead entry stays until
//! vacuum removes it, which can take a minute, and a scan from the front reads all of them. So a
//! process remembers for a short time where it found the first item of each lane and priority, and
//! begins there. Only speed depends on it: a scan that finds nothing is followed by a full scan,
//! and so is every scan once the hint has expired. The fewer dead rows, the shorter a hint is
//! valid; with few of them, there are no hints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{Clock, LaneName, LeaseRequest, Priority, QueueName, Timestamp};

use super::micros;
use super::scan::Scan;

/// Scanning this many dead rows costs next to nothing.
const FEW_DEAD: u64 = 10_000;

/// How long a full scan stays valid, per dead row: a hundred times the time to skip one.
const PER_DEAD_ROW: Duration = Duration::from_nanos(500);

/// The longest that a full scan stays valid.
const LONGEST: Duration = Duration::from_secs(1);

/// The server's own count of dead rows is about as old.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// A commit's moment is earlier than its visibility. Items that become visible within this time are
/// not overlooked.
const GRACE: Duration = Duration::from_millis(200);

/// A lane and priority of a queue, and where its first item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScanHint {
    pub(super) lane: LaneName,
    pub(super) priority: Priority,
    /// Nothing is ready before this; in microseconds, as in the table.
    pub(super) first: i64,
}

/// The hints of this process, by queue and requested lane.
#[derive(Debug)]
pub(crate) struct ScanHints {
    stopwatch: Arc<dyn Clock>,
    memory: Mutex<HintState>,
}

#[derive(Debug, Default)]
struct HintState {
    seen: HashMap<Place, Seen>,
    /// The number of dead rows, and when it was read.
    dead: Option<(u64, Duration)>,
    /// The number of full scans.
    full_scans: u64,
}

type Place = (QueueName, Option<LaneName>);

#[derive(Debug)]
struct Seen {
    /// The full scan that this is based on.
    full_scan: u64,
    until: Duration,
    hints: Vec<ScanHint>,
    next_due: Option<Timestamp>,
}

/// A hint that is still valid.
#[derive(Debug)]
pub(super) struct Recalled {
    full_scan: u64,
    pub(super) hints: Vec<ScanHint>,
    /// The next due time that the full scan found.
    next_due: Option<Timestamp>,
    /// The time until the next full scan.
    left: Duration,
}

impl Recalled {
    /// When to come back: for the known next item, and for what may have been overlooked.
    pub(super) fn next_due(&self, now: Timestamp) -> Timestamp {
        let rescan = now.plus(self.left);
        self.next_due.filter(|due| *due > now).map_or(rescan, |due| due.min(rescan))
    }
}

impl ScanHints {
    pub(crate) fn new(stopwatch: Arc<dyn Clock>) -> Self {
        Self { stopwatch, memory: Mutex::default() }
    }

    /// Where to begin; none if a full scan is needed.
    pub(super) fn recall(&self, request: &LeaseRequest) -> Option<Recalled> {
        let elapsed = self.stopwatch.elapsed();
        let memory = self.lock();
        let seen = memory.seen.get(&place(request)).filter(|seen| elapsed < seen.until)?;
        let (full_scan, hints, next_due) = (seen.full_scan, seen.hints.clone(), seen.next_due);
        Some(Recalled { full_scan, hints, next_due, left: seen.until.saturating_sub(elapsed) })
    }

    /// Stores the result of a full scan.
    pub(super) fn remember(
        &self,
        request: &LeaseRequest,
        scan: &Scan,
        next_due: Option<Timestamp>,
    ) {
        let elapsed = self.stopwatch.elapsed();
        let mut memory = self.lock();
        memory.full_scans += 1;
        let until = elapsed + good_for(memory.dead.map_or(0, |(rows, _)| rows));
        if until == elapsed || scan.hints.is_empty() {
            memory.seen.remove(&place(request));
            return;
        }
        let seen = Seen { full_scan: memory.full_scans, until, hints: begins(scan), next_due };
        memory.seen.insert(place(request), seen);
    }

    /// Stores the result of a hinted scan, unless there was a full scan in the meantime: that may
    /// have found what this one could not see.
    pub(super) fn advance(&self, request: &LeaseRequest, from: &Recalled, scan: &Scan) {
        if let Some(seen) = self.lock().seen.get_mut(&place(request))
            && seen.full_scan == from.full_scan
        {
            seen.hints = begins(scan);
        }
    }

    /// Whether it is time to ask the server for the number of dead rows.
    pub(super) fn wants_count(&self) -> bool {
        let counted = self.lock().dead;
        counted.is_none_or(|(_, at)| self.stopwatch.elapsed().saturating_sub(at) >= COUNTED_EVERY)
    }

    pub(super) fn counted(&self, dead_rows: u64) {
        self.lock().dead = Some((dead_rows, self.stopwatch.elapsed()));
    }

    fn lock(&self) -> MutexGuard<'_, HintState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(request: &LeaseRequest) -> Place {
    (request.queue.clone(), request.lane.clone())
}

fn good_for(dead_rows: u64) -> Duration {
    if dead_rows < FEW_DEAD {
        return Duration::ZERO;
    }
    PER_DEAD_ROW.saturating_mul(u32::try_from(dead_rows).unwrap_or(u32::MAX)).min(LONGEST)
}

fn begins(scan: &Scan) -> Vec<ScanHint> {
    let latest = scan.now.micros() - micros(GRACE);
    scan.hints
        .iter()
        .map(|hint| ScanHint { first: hint.first.min(latest), ..hint.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use tidelock_store::{ManualClock, WorkerName};

    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn hints(dead_rows: u64) -> ScanHints {
        let hints = ScanHints::new(Arc::new(ManualClock::at(Timestamp::from_micros(0).unwrap())));
        hints.counted(dead_rows);
        hints
    }

    fn request() -> LeaseRequest {
        let (queue, worker) = (QueueName::new("mail").unwrap(), WorkerName::new("worker").unwrap());
        LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 10)
    }

    fn scan(first: i64) -> Scan {
        let (lane, priority) = (LaneName::new("default").unwrap(), Priority::new(0).unwrap());
        let hints = vec![ScanHint { lane, priority, first }];
        Scan { now: Timestamp::from_micros(NOW).unwrap(), hints, ready: Vec::new() }
    }

    fn begins_at(hints: &ScanHints) -> Option<i64> {
        hints.recall(&request()).map(|recalled| recalled.hints[0].first)
    }

    #[test]
    fn the_less_is_dead_the_shorter_is_the_memory() {
        assert_eq!(good_for(9_999), Duration::ZERO);
        assert_eq!(good_for(10_000), Duration::from_millis(5));
        assert_eq!(good_for(1_000_000), Duration::from_millis(500));
        assert_eq!(good_for(u64::MAX), LONGEST);
    }

    #[test]
    fn a_look_begins_where_the_first_was_and_never_among_what_may_yet_become_visible() {
        let hints = hints(1_000_000);
        hints.remember(&request(), &scan(NOW - 5_000_000), None);
        assert_eq!(begins_at(&hints), Some(NOW - 5_000_000));
        hints.remember(&request(), &scan(NOW + 5_000_000), None);
        assert_eq!(begins_at(&hints), Some(NOW - micros(GRACE)));
    }

    #[test]
    fn a_look_from_memory_does_not_undo_what_a_whole_one_has_found_meanwhile() {
        let hints = hints(1_000_000);
        hints.remember(&request(), &scan(NOW - 3_000_000), None);
        let slow = hints.recall(&request()).unwrap();
        hints.remember(&request(), &scan(NOW - 9_000_000), None);
        hints.advance(&request(), &slow, &scan(NOW - 1_000_000));
        assert_eq!(begins_at(&hints), Some(NOW - 9_000_000));
        let quick = hints.recall(&request()).unwrap();
        hints.advance(&request(), &quick, &scan(NOW - 8_000_000));
        assert_eq!(begins_at(&hints), Some(NOW - 8_000_000));
    }
}
