//! The workloads, one file per family: how a store is filled, what one call is, and what the bare loop does instead.
//!
//! Payloads and values are JSON that was made beforehand: turning a value into JSON is its owner's work, whatever the
//! store. Ids of events are made in the call, by us and by the bare loop, for each event needs one of its own.

mod commits;
mod leases;
mod reads;
mod records;

use std::time::Duration;

use tidelock::{CommitOutcome, Committed};

use crate::args::Choice;
use crate::failure::Failure;
use crate::measure::Measured;
use crate::progress::Progress;
use crate::site::Target;

/// A workload at a number of callers.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) callers: usize,
    pub(crate) workload: Workload,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Workload {
    /// One operation: a commit that appends this many events of 200 bytes to the caller's own stream, expecting the
    /// version that its last commit left.
    Commit { events: usize },
    /// One operation: all of a stream of 100 events, read in one page. The streams grew side by side, so that a
    /// stream's events do not lie together.
    Load,
    /// One operation: one event of the feed, read in pages of 1,000 from the start to the end and over again. The
    /// times are those of a page.
    Feed,
    /// One operation: one call that leases 10 items, and one commit that acknowledges these 10 and wakes them again, in
    /// a queue with this many items more that had work once and have none now. Waking is part of the operation: it
    /// costs no row that the settlement does not write anyway.
    Lease { idle: usize },
    /// One operation: a commit that puts a record of 200 bytes which must not be there and is not: every one writes.
    SetIfAbsent,
    /// One operation: a commit that puts a record which must not be there and is: every one is told what is there
    /// instead, and none writes.
    SetIfAbsentHot,
    /// One operation: a commit that adds 1 to a counter, the same for all callers, within a bound that is far away:
    /// every one writes.
    AddHot,
}

const fn case(name: &'static str, callers: usize, workload: Workload) -> Case {
    Case { name, callers, workload }
}

/// All that can be measured, in the order in which it is.
const CASES: &[Case] = &[
    case("commit-1", 1, Workload::Commit { events: 1 }),
    case("commit-1", 32, Workload::Commit { events: 1 }),
    case("commit-1", 64, Workload::Commit { events: 1 }),
    case("commit-1", 256, Workload::Commit { events: 1 }),
    case("commit-10", 1, Workload::Commit { events: 10 }),
    case("commit-10", 32, Workload::Commit { events: 10 }),
    case("commit-10", 64, Workload::Commit { events: 10 }),
    case("commit-10", 256, Workload::Commit { events: 10 }),
    case("load-100", 1, Workload::Load),
    case("load-100", 32, Workload::Load),
    case("feed", 1, Workload::Feed),
    case("lease-10-idle-1k", 1, Workload::Lease { idle: 1_000 }),
    case("lease-10-idle-100k", 1, Workload::Lease { idle: 100_000 }),
    case("lease-10-idle-1m", 1, Workload::Lease { idle: 1_000_000 }),
    case("set-if-absent", 32, Workload::SetIfAbsent),
    case("set-if-absent-hot", 32, Workload::SetIfAbsentHot),
    case("add-hot", 64, Workload::AddHot),
];

/// What every workload is given.
pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Target,
    /// How long to measure, and the bare limit for as long again.
    pub(crate) time: Duration,
    pub(crate) progress: &'a Progress,
}

/// The cases that were chosen; all of them, if none was.
pub(crate) fn chosen(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    if let Some(unknown) = choices.iter().find(|choice| !CASES.iter().any(|case| choice.means(case))) {
        return Err(unknown.refuse());
    }
    let wanted = |case: &&Case| choices.is_empty() || choices.iter().any(|choice| choice.means(case));
    Ok(CASES.iter().filter(wanted).collect())
}

impl Choice {
    fn means(&self, case: &Case) -> bool {
        self.workload == case.name && self.callers.is_none_or(|callers| callers == case.callers)
    }

    fn refuse(&self) -> Failure {
        let callers = self.callers.map_or(String::new(), |callers| format!("@{callers}"));
        let known: Vec<_> = CASES.iter().map(|case| format!("{}@{}", case.name, case.callers)).collect();
        Failure::Usage {
            what: format!("there is no workload {}{callers}", self.workload),
            hint: format!("one of {}", known.join(", ")),
        }
    }
}

/// Fills a store of its own for the case, measures, and clears it away.
pub(crate) async fn measure(case: &Case, bench: &Bench<'_>) -> Result<Measured, Failure> {
    match case.workload {
        Workload::Commit { events } => commits::measure(bench, case.callers, events).await,
        Workload::Load => reads::measure_load(bench, case.callers).await,
        Workload::Feed => reads::measure_feed(bench).await,
        Workload::Lease { idle } => leases::measure(bench, idle).await,
        Workload::SetIfAbsent => records::measure_absent(bench, case.callers).await,
        Workload::SetIfAbsentHot => records::measure_taken(bench, case.callers).await,
        Workload::AddHot => records::measure_add(bench, case.callers).await,
    }
}

/// A commit that nothing stands against; if something did, the figures would be of refusals.
fn committed(outcome: CommitOutcome) -> Result<Committed, Failure> {
    outcome.committed().map_err(|conflict| Failure::Answer(format!("a commit was refused: {conflict}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_narrows_and_no_choice_means_everything() {
        let count = |choices: &[&str]| {
            let choices: Vec<Choice> = choices.iter().map(|c| c.parse().unwrap()).collect();
            chosen(&choices).map(|cases| cases.len()).map_err(|e| e.to_string())
        };
        assert_eq!(count(&[]), Ok(CASES.len()));
        assert_eq!(count(&["commit-1"]), Ok(4));
        assert_eq!(count(&["commit-1@64", "feed"]), Ok(2));
        assert_eq!(count(&["commit-2"]), Err("there is no workload commit-2".to_owned()));
        assert_eq!(count(&["feed@7"]), Err("there is no workload feed@7".to_owned()));
    }
}
