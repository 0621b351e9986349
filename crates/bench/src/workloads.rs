//! The workloads, one file per family: how a store is filled, what one call is, and what the bare
//! loop does instead.
//!
//! Payloads and values are JSON that was made beforehand: turning a value into JSON is its owner's
//! work, whatever the store. Ids of events are made in the call, for each event needs one of its
//! own.

mod case;

mod claims;
mod commits;
mod events;
mod mixed;
mod processes;

mod leases;
mod reads;
mod records;
mod scopes;

use std::time::Duration;

use tidelock::{CommitOutcome, Committed};

use crate::failure::Failure;
use crate::measure::Measured;
use crate::progress::Progress;
use crate::target::Target;

pub(crate) use case::{Case, chosen, chosen_claims, chosen_events, chosen_scopes};
pub(crate) use processes::serve;

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Workload {
    /// One operation: a commit that appends this many events of 200 bytes to the caller's own
    /// stream, expecting the version that its last commit left.
    Commit { events: usize },
    /// The same with one event, by callers in four processes. The yardstick has all of them in one.
    Processes,
    /// One operation: a commit that appends an event, puts a record, settles a lease and wakes its
    /// item again. The leases are taken ten at a time, which is part of the time.
    Mixed,
    /// One operation: all of a stream of 100 events, read in one page. The streams grew side by
    /// side, so that a stream's events do not lie together.
    Load,
    /// One operation: one event of the feed, read in pages of 1,000 from the start to the end and
    /// over again. The times are those of a page.
    Feed,
    /// One operation: one call that leases 10 items, and one commit that acknowledges these 10 and
    /// wakes them again, in a queue with this many items more that had work once and have none now.
    /// Waking is part of the operation: it costs no row that the settlement does not write anyway.
    Lease { idle: usize },
    /// The same after many items were woken, leased and settled. The remarks say what that left
    /// behind.
    Churned { idle: usize },
    /// One operation: a commit that puts a record of 200 bytes which must not be there and is not:
    /// every one writes.
    SetIfAbsent,
    /// One operation: a commit that puts a record which must not be there and is: every one is told
    /// what is there instead, and none writes.
    SetIfAbsentHot,
    /// One operation: a commit that adds 1 to a counter, the same for all callers, within a bound
    /// that is far away: every one writes.
    AddHot,
    /// One operation: a decision about the caller's own aggregate, whose state is remembered, that
    /// becomes one event of 200 bytes. Beside it, not plain SQL but the store's own commits of such
    /// events.
    Decide,
    /// The same, all callers about one aggregate. Beside it, as many callers about one each.
    DecideHot,
    /// One operation: the state of a stream of this many events, of which nothing is remembered,
    /// with a snapshot of it or without. Beside it, reading all of its events.
    ColdLoad { events: usize, snapshot: bool },
    /// One operation: a mutation of a scope in memory, the same for all callers. Beside it, a lock
    /// of the runtime around the same state, which is copied, changed and put in place.
    MutateLocal,
    /// One operation: one more in a field of a durable scope, the same for all callers. Beside it,
    /// as many callers commit to keys of their own. That none is lost is checked.
    IncrementHot,
    /// The same in a scope that is nothing but a number.
    CountHot,
    /// One operation: a commit. Each call claims a key of its own and completes it, which is two.
    /// Beside it, the store's own commits of one event each.
    ClaimComplete,
    /// One operation: a claim of one key that is done, the same for all callers: every one gets the
    /// result. Beside it, the same with a key of each caller's own.
    ClaimHot,
    /// One operation: a commit. Each call takes a lock of the caller's own and gives it back, which
    /// is two. Beside it, the store's own commits of one event each.
    LockUnlock,
    /// One operation: a caller of a hundred on a quota of 18, all at once, of whom 18 are granted.
    /// Beside it, the same hundred on a quota that is enough for all.
    QuotaRound,
}

/// What every workload is given.
pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Target,
    /// How long to measure, and the bare limit for as long again.
    pub(crate) time: Duration,
    /// How many leases come before a measurement that is to be made after many.
    pub(crate) churn: usize,
    pub(crate) progress: &'a Progress,
}

/// Fills a store of its own for the case, measures, and clears it away.
pub(crate) async fn measure(case: &Case, bench: &Bench<'_>) -> Result<Measured, Failure> {
    match case.workload {
        Workload::Commit { events } => commits::measure(bench, case, events).await,
        Workload::Processes => processes::measure(bench, case).await,
        Workload::Mixed => mixed::measure(bench, case.callers).await,
        Workload::Load => reads::measure_load(bench, case).await,
        Workload::Feed => reads::measure_feed(bench).await,
        Workload::Lease { idle } => leases::measure(bench, idle).await,
        Workload::Churned { idle } => leases::measure_churned(bench, idle).await,
        Workload::SetIfAbsent => records::measure_absent(bench, case).await,
        Workload::SetIfAbsentHot => records::measure_taken(bench, case).await,
        Workload::AddHot => records::measure_add(bench, case).await,
        Workload::Decide => events::measure_distinct(bench, case).await,
        Workload::ClaimComplete => claims::measure_complete(bench, case).await,
        Workload::ClaimHot => claims::measure_hot(bench, case).await,
        Workload::LockUnlock => claims::measure_locks(bench, case).await,
        Workload::QuotaRound => claims::measure_quota(bench).await,
        Workload::DecideHot => events::measure_hot(bench, case).await,
        Workload::ColdLoad { events, snapshot } => {
            events::measure_load(bench, events, snapshot).await
        }
        Workload::MutateLocal => scopes::measure_local(bench, case).await,
        Workload::IncrementHot => scopes::measure_field(bench, case).await,
        Workload::CountHot => scopes::measure_counter(bench, case).await,
    }
}

/// A commit that nothing stands against; if something did, the figures would be of refusals.
fn committed(outcome: CommitOutcome) -> Result<Committed, Failure> {
    outcome
        .committed()
        .map_err(|conflict| Failure::Answer(format!("a commit was refused: {conflict}")))
}
