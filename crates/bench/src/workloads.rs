//! The workloads, one file per family: how a store is filled, what one call is, and its baseline.
//!
//! Payloads and values are prepared JSON: encoding is the caller's work, on every store. Ids of
//! events are made in the call, because each event needs its own.

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

use tidelock::store::{CommitOutcome, Committed};

use crate::failure::Failure;
use crate::measure::Measured;
use crate::progress::Progress;
use crate::target::Target;

pub(crate) use case::{Case, chosen, chosen_claims, chosen_events, chosen_scopes};
pub(crate) use commits::writers;
pub(crate) use processes::{Done, Team, serve};

/// A workload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Workload {
    /// One operation: a commit that appends this many events of 200 bytes to the caller's own
    /// stream, expecting the version that its last commit left.
    Commit { events: usize },
    /// One event per commit, by callers in four processes. Compared with all of them in one
    /// process.
    Processes,
    /// One operation: a commit that appends an event, puts a record, settles a lease and wakes its
    /// item again. The leases are taken ten at a time, which is part of the time.
    Mixed,
    /// One operation: a stream of 100 events, read in one page. The streams grew concurrently, so
    /// that a stream's events are not adjacent.
    Load,
    /// One operation: one event of the feed, read in pages of 1,000 from the start to the end and
    /// over again. The times are those of a page.
    Feed,
    /// One operation: one call that leases 10 items, and one commit that acknowledges these 10 and
    /// wakes them again, in a queue with this many items more that had work once and have none now.
    /// Waking is part of the operation: it costs no row that the settlement does not write anyway.
    Lease { idle: usize },
    /// Leasing after many items were woken, leased and settled. The remarks report the growth of
    /// the tables.
    Churned { idle: usize },
    /// One operation: a commit that puts a record of 200 bytes which must not exist and does not:
    /// each writes.
    SetIfAbsent,
    /// One operation: a commit that puts a record which must not exist and does: each is refused
    /// with the existing record, and none writes.
    SetIfAbsentHot,
    /// One operation: a commit that adds 1 to one counter, shared by all callers, far from its
    /// bound: each writes.
    AddHot,
    /// One operation: a decision about the caller's own aggregate, whose state is cached, with one
    /// event of 200 bytes. The baseline is the store's own commits of such events.
    Decide,
    /// All callers decide about one aggregate. The baseline is as many callers with one aggregate
    /// each.
    DecideHot,
    /// One operation: loading a stream of this many events, without a cache, with a snapshot of it
    /// or without. The baseline is reading all of its events.
    ColdLoad { events: usize, snapshot: bool },
    /// One operation: a mutation of a scope in memory, shared by all callers. The baseline is a
    /// lock of the runtime around the same state, which is copied, changed and replaced.
    MutateLocal,
    /// One operation: an increment of a field of a durable scope, shared by all callers. The
    /// baseline is as many callers that commit to separate keys. Checks that none is lost.
    IncrementHot,
    /// One operation: an increment of a scope that is a plain integer.
    CountHot,
    /// One operation: a commit. Each call claims its own key and completes it, which is two. The
    /// baseline is the store's own commits of one event each.
    ClaimComplete,
    /// One operation: a claim of one completed key, shared by all callers: each gets the result.
    /// The baseline is a separate key for each caller.
    ClaimHot,
    /// One operation: a commit. Each call takes its own lock and releases it, which is two. The
    /// baseline is the store's own commits of one event each.
    LockUnlock,
    /// One operation: one of a hundred concurrent callers on a quota of 18, of which 18 are
    /// granted. The baseline is the same hundred on a quota that is enough for all.
    QuotaRound,
}

/// The context of a workload.
pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Target,
    /// How long to measure, and the baseline for as long again.
    pub(crate) time: Duration,
    /// Number of leases before a churned measurement.
    pub(crate) churn: usize,
    pub(crate) progress: &'a Progress,
}

/// Fills a new store for the case, measures, and removes it.
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

/// Requires a commit without conflict; otherwise the figures would be of refusals.
fn committed(outcome: CommitOutcome) -> Result<Committed, Failure> {
    outcome
        .committed()
        .map_err(|conflict| Failure::Answer(format!("a commit was refused: {conflict}")))
}
