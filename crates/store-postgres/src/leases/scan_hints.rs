//! Where in the index of what is ready there was something to see, so that the next look need not
//! begin before it.
//!
//! An item that is leased or settled leaves its place in the index. What it leaves there is dead,
//! and stays until the server's vacuum comes by, which can be a minute; a look from the very front
//! walks through all of it. So a process remembers for a moment where it has found the first item
//! of each lane and priority, and begins there. Nothing but speed hangs on it: whoever finds
//! nothing that way looks at the whole, and so does everybody once the moment is over. It is the
//! shorter the less is dead; where that is little, nothing is remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{Clock, LaneName, LeaseRequest, Priority, QueueName, Timestamp};

use super::micros;
use super::scan::Scan;

/// To walk through so few costs nothing to speak of.
const FEW_DEAD: u64 = 10_000;

/// For how long a whole look is good, for each row that is dead: a hundred times what it takes to
/// walk past one.
const PER_DEAD_ROW: Duration = Duration::from_nanos(500);

/// And for how long at most.
const LONGEST: Duration = Duration::from_secs(1);

/// The server's own count of what is dead is about as old.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// A commit knows its moment before others see it. What becomes visible within this time is not
/// overlooked.
const GRACE: Duration = Duration::from_millis(200);

/// A lane and priority of a queue, and where its first item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScanHint {
    pub(super) lane: LaneName,
    pub(super) priority: Priority,
    /// Nothing is ready before this; in microseconds, as in the table.
    pub(super) first: i64,
}

/// What this process remembers, by queue and lane asked for.
#[derive(Debug)]
pub(crate) struct ScanHints {
    stopwatch: Arc<dyn Clock>,
    memory: Mutex<HintState>,
}

#[derive(Debug, Default)]
struct HintState {
    seen: HashMap<Place, Seen>,
    /// How many rows are dead, and when that was counted.
    dead: Option<(u64, Duration)>,
    /// How many whole looks there were.
    looks: u64,
}

type Place = (QueueName, Option<LaneName>);

#[derive(Debug)]
struct Seen {
    /// Which whole look this goes back to.
    look: u64,
    until: Duration,
    fronts: Vec<ScanHint>,
    next_due: Option<Timestamp>,
}

/// A memory that is still good.
#[derive(Debug)]
pub(super) struct Recalled {
    look: u64,
    pub(super) fronts: Vec<ScanHint>,
    /// What the whole look said of when there will be more.
    next_due: Option<Timestamp>,
    /// The time until there has to be another whole look.
    left: Duration,
}

impl Recalled {
    /// When to come back: for what was known to come, and for what can have been overlooked.
    pub(super) fn next_due(&self, now: Timestamp) -> Timestamp {
        let look = now.plus(self.left);
        self.next_due.filter(|due| *due > now).map_or(look, |due| due.min(look))
    }
}

impl ScanHints {
    pub(crate) fn new(stopwatch: Arc<dyn Clock>) -> Self {
        Self { stopwatch, memory: Mutex::default() }
    }

    /// Where to begin; nothing if the whole has to be looked at.
    pub(super) fn recall(&self, request: &LeaseRequest) -> Option<Recalled> {
        let elapsed = self.stopwatch.elapsed();
        let memory = self.lock();
        let seen = memory.seen.get(&place(request)).filter(|seen| elapsed < seen.until)?;
        let (look, fronts, next_due) = (seen.look, seen.fronts.clone(), seen.next_due);
        Some(Recalled { look, fronts, next_due, left: seen.until.saturating_sub(elapsed) })
    }

    /// Remembers what a look at the whole has found.
    pub(super) fn remember(
        &self,
        request: &LeaseRequest,
        look: &Scan,
        next_due: Option<Timestamp>,
    ) {
        let elapsed = self.stopwatch.elapsed();
        let mut memory = self.lock();
        memory.looks += 1;
        let until = elapsed + good_for(memory.dead.map_or(0, |(rows, _)| rows));
        if until == elapsed || look.fronts.is_empty() {
            memory.seen.remove(&place(request));
            return;
        }
        let seen = Seen { look: memory.looks, until, fronts: begins(look), next_due };
        memory.seen.insert(place(request), seen);
    }

    /// Remembers what a look from where it was recalled to begin has found, unless the whole was
    /// looked at meanwhile: that may have found what this one could not see.
    pub(super) fn advance(&self, request: &LeaseRequest, from: &Recalled, look: &Scan) {
        if let Some(seen) = self.lock().seen.get_mut(&place(request))
            && seen.look == from.look
        {
            seen.fronts = begins(look);
        }
    }

    /// Whether it is time to ask the server how much is dead.
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

fn begins(look: &Scan) -> Vec<ScanHint> {
    let latest = look.now.micros() - micros(GRACE);
    look.fronts
        .iter()
        .map(|front| ScanHint { first: front.first.min(latest), ..front.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use tidelock_store::{ManualClock, WorkerName};

    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn fronts(dead_rows: u64) -> ScanHints {
        let fronts = ScanHints::new(Arc::new(ManualClock::at(Timestamp::from_micros(0).unwrap())));
        fronts.counted(dead_rows);
        fronts
    }

    fn request() -> LeaseRequest {
        let (queue, worker) = (QueueName::new("mail").unwrap(), WorkerName::new("worker").unwrap());
        LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 10)
    }

    fn look(first: i64) -> Scan {
        let (lane, priority) = (LaneName::new("default").unwrap(), Priority::new(0).unwrap());
        let fronts = vec![ScanHint { lane, priority, first }];
        Scan { now: Timestamp::from_micros(NOW).unwrap(), fronts, ready: Vec::new() }
    }

    fn begins_at(fronts: &ScanHints) -> Option<i64> {
        fronts.recall(&request()).map(|recalled| recalled.fronts[0].first)
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
        let fronts = fronts(1_000_000);
        fronts.remember(&request(), &look(NOW - 5_000_000), None);
        assert_eq!(begins_at(&fronts), Some(NOW - 5_000_000));
        fronts.remember(&request(), &look(NOW + 5_000_000), None);
        assert_eq!(begins_at(&fronts), Some(NOW - micros(GRACE)));
    }

    #[test]
    fn a_look_from_memory_does_not_undo_what_a_whole_one_has_found_meanwhile() {
        let fronts = fronts(1_000_000);
        fronts.remember(&request(), &look(NOW - 3_000_000), None);
        let slow = fronts.recall(&request()).unwrap();
        fronts.remember(&request(), &look(NOW - 9_000_000), None);
        fronts.advance(&request(), &slow, &look(NOW - 1_000_000));
        assert_eq!(begins_at(&fronts), Some(NOW - 9_000_000));
        let quick = fronts.recall(&request()).unwrap();
        fronts.advance(&request(), &quick, &look(NOW - 8_000_000));
        assert_eq!(begins_at(&fronts), Some(NOW - 8_000_000));
    }
}
