//! The checks: of each work item, of open runs, of claims and of closings.
//!
//! The first check that applies to a work item explains it. Routing, contention, queues without a
//! worker and database sessions have their own files.

use std::collections::BTreeSet;
use std::time::Duration;

use tidelock_store::{
    Item, ItemFilter, ItemQuery, ItemRef, Result, StoreExt, StreamQuery, Timestamp, Version, limits,
};

use super::claim_outcomes::ClaimOutcomes;
use super::display::{ahead, many, span};
use super::examination::{Examination, unfinished};
use super::finding::{Finding, FindingKind, Findings, Severity};
use super::remedy::{RemedyAction, RemedyTask};
use super::stuck_workers::HeldLeases;
use super::subject::Subject;
use super::unserved::{self, Unserved};
use crate::claims::{ClaimInfo, ClaimState};
use crate::closing::{UnfinishedClosing, is_closing_queue};
use crate::handle::Tidelock;
use crate::reactions::TargetInfo;
use crate::runs::client::listing;
use crate::runs::summary::Summarized;
use crate::runs::{
    LASTING, PendingWait, RunFilter, RunId, RunInfo, RunState, RunStatus, keys, run_of,
};
use crate::worker::limited_by;

/// Checks one item and returns its finding, if any.
type ItemCheck = fn(&Item, &Examination) -> Option<Finding>;

/// The checks of one item, in order. The first finding is kept.
const ITEM_CHECKS: [ItemCheck; 7] =
    [unrouted, parked, blocked, expiry_loop, expired, expiring, retrying];

/// One expiry of a lease is not a loop.
const EXPIRY_LOOP: u32 = 2;

/// Long enough to find out why the workers died.
const DEFERRAL: Duration = Duration::from_secs(3_600);

/// The remaining time below which a lease is reported.
const EXPIRING: Duration = Duration::from_secs(2);

const NO_ERROR: &str = "no error was recorded";

/// Checks the work items: blocked and held ones first, because they are few and indexed, then the
/// rest.
pub(super) async fn items(
    exam: &Examination,
    routes: &BTreeSet<ItemRef>,
    findings: &mut Findings,
) -> Result<()> {
    let (mut unserved, all) = (Unserved::default(), ItemFilter::default);
    let (mut batch, mut held) = (Batch::default(), HeldLeases::default());
    for filter in
        [all().blocked(true), all().blocked(false).held(true), all().blocked(false).held(false)]
    {
        let (mut items, mut scanned) = (exam.store.rows(ItemQuery::new(filter)), 0);
        while let Some(item) = items.next().await? {
            if scanned == exam.thresholds.scan {
                findings.add(unfinished(Subject::WorkItems, scanned));
                break;
            }
            scanned += 1;
            // Routes and closings have their own checks. An archive may take any time. A permit
            // that no worker needs is due, or leased by a dead one, and nothing is wrong.
            let queue = &item.item.queue;
            let is_permit = limited_by(queue).is_some();
            if is_permit || is_closing_queue(queue) || routes.contains(&item.item) {
                continue;
            }
            let finding = match ITEM_CHECKS.iter().find_map(|check| check(&item, exam)) {
                Some(finding) => Some(finding),
                None => hung(&item, exam).await?,
            };
            let finding = held.count(&item, finding, exam);
            if finding.is_some() || unserved.concerns(&item, exam) {
                batch.checked.push((item, finding));
            }
            if batch.checked.len() == BATCH {
                batch.report(exam, &mut unserved, findings).await?;
            }
        }
    }
    batch.report(exam, &mut unserved, findings).await?;
    held.report(exam, findings);
    unserved.report(exam, findings);
    Ok(())
}

/// How many checked items are reported at once.
const BATCH: usize = 500;

/// Checked items with their findings; without one, they wait for a worker.
#[derive(Default)]
struct Batch {
    checked: Vec<(Item, Option<Finding>)>,
}

impl Batch {
    /// Reports all of them, except the items of runs that have ended: a run that was terminated
    /// leaves an item that waits for a worker, and there is nothing to do.
    async fn report(
        &mut self,
        exam: &Examination,
        unserved: &mut Unserved,
        findings: &mut Findings,
    ) -> Result<()> {
        let ended = self.ended(exam).await?;
        for (item, finding) in self.checked.drain(..) {
            if run_of(&item.item).is_some_and(|run| ended.contains(&run)) {
                continue;
            }
            match finding {
                Some(finding) => findings.add(finding),
                None => unserved.count(&item, exam),
            }
        }
        Ok(())
    }

    async fn ended(&self, exam: &Examination) -> Result<BTreeSet<RunId>> {
        let runs: BTreeSet<RunId> =
            self.checked.iter().filter_map(|(item, _)| run_of(&item.item)).collect();
        if runs.is_empty() {
            return Ok(runs);
        }
        let keys: Vec<_> = runs.iter().map(keys::summary).collect();
        let slots = exam.store.get(&keys).await?;
        let mut ended = BTreeSet::new();
        for (run, slot) in runs.into_iter().zip(&slots) {
            let there = Summarized::of(&run, slot)?;
            // One that was removed has ended, too.
            if there.is_none_or(|there| there.summary.state.is_ended()) {
                ended.insert(run);
            }
        }
        Ok(ended)
    }
}

/// An event whose routing function failed: it reaches no target until that succeeds.
fn unrouted(item: &Item, _: &Examination) -> Option<Finding> {
    let target =
        TargetInfo::of(item.clone()).filter(|target| target.unrouted && target.lag() > 0)?;
    let subject = Subject::Event { reaction: target.reaction, position: item.mark };
    let what = format!("its route failed: {}", item.error.as_deref().unwrap_or("not tried yet"));
    let finding = match item.blocked {
        true => Finding::error(FindingKind::Unrouted, subject, what)
            .advice("fix the routing function, then unblock it")
            .action(RemedyAction::Unblock(RemedyTask::of(item))),
        false => Finding::warning(FindingKind::Unrouted, subject, what)
            .advice("it is retried; to see the event")
            .action(RemedyAction::ShowEvent { position: item.mark.get() }),
    };
    Some(finding.since(item.due))
}

/// A parked run: its code does not fit its history, or panics. It is retried; it has neither failed
/// nor been lost.
fn parked(item: &Item, exam: &Examination) -> Option<Finding> {
    let run = run_of(&item.item)?;
    let hold = item.hold.filter(|hold| *hold > exam.now && item.failures > 0);
    if !item.blocked && hold.is_none() {
        return None;
    }
    let again = hold.filter(|_| !item.blocked).map_or_else(
        || "is not retried automatically".to_owned(),
        |hold| format!("is retried {}", ahead(hold, exam.now)),
    );
    let is_lasting = item.blocked || item.failures >= LASTING;
    let severity = if is_lasting { Severity::Error } else { Severity::Warning };
    let (times, error) =
        (many(item.failures.max(1), "time"), item.error.as_deref().unwrap_or(NO_ERROR));
    let what = format!("parked {times}, {again}: {error}");
    Some(
        Finding::new(FindingKind::Parked, severity, Subject::Run(run.clone()), what)
            .since(item.due)
            .advice("deploy code that fits its history, then resume it")
            .action(RemedyAction::Resume { run }),
    )
}

/// A blocked item: it is not retried until an operator unblocks it.
fn blocked(item: &Item, _: &Examination) -> Option<Finding> {
    if !item.blocked {
        return None;
    }
    let waiting = item.mark.get().saturating_sub(item.at.get());
    let error = item.error.as_deref().unwrap_or(NO_ERROR);
    let what = format!("blocked at {}, {waiting} behind: {error}", item.at);
    Some(
        Finding::error(FindingKind::Blocked, Subject::of(item), what)
            .since(item.due)
            .advice("fix the cause, then unblock it")
            .action(RemedyAction::Unblock(RemedyTask::of(item))),
    )
}

/// An item whose leases expire again and again: something about it stops or kills its workers.
fn expiry_loop(item: &Item, _: &Examination) -> Option<Finding> {
    if item.expiries < EXPIRY_LOOP {
        return None;
    }
    let holder = item
        .holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(", last with worker {:?}", holder.worker));
    let what =
        format!("its lease expired {} times since it last made progress{holder}", item.expiries);
    Some(
        Finding::error(FindingKind::ExpiryLoop, Subject::of(item), what)
            .since(item.holder.as_ref().map(|holder| holder.since))
            .advice("find out why its workers died; meanwhile, defer it")
            .action(RemedyAction::Defer { work: RemedyTask::of(item), wait: DEFERRAL }),
    )
}

/// An expired lease: the holder stopped renewing, and no other worker has taken the item.
fn expired(item: &Item, exam: &Examination) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| exam.is_stuck(holder.deadline))?;
    let what = format!(
        "the lease of worker {:?} expired {} ago, and no worker has taken the item since",
        holder.worker,
        span(exam.now.since(holder.deadline))
    );
    let serve = unserved::advice(&item.item.queue);
    Some(
        Finding::error(FindingKind::Expired, Subject::of(item), what)
            .since(holder.deadline)
            .advice(format!("{serve}; late writes of the old worker are refused")),
    )
}

/// A lease that is about to expire. A healthy worker renews in time, so this is rarely seen.
fn expiring(item: &Item, exam: &Examination) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| holder.deadline > exam.now)?;
    let left = holder.deadline.since(exam.now);
    let what = format!(
        "the lease of worker {:?} expires in {} unless it is renewed",
        holder.worker,
        span(left)
    );
    (left <= EXPIRING).then(|| {
        Finding::warning(FindingKind::Expiring, Subject::of(item), what)
            .since(holder.since)
            .advice("check again in a moment; if this is gone, all is well")
    })
}

/// An item that failed and is retried.
fn retrying(item: &Item, exam: &Examination) -> Option<Finding> {
    let error = item.error.as_deref().filter(|_| item.failures > 0 && item.holder.is_none())?;
    let again = item.hold.map_or_else(|| "at once".to_owned(), |hold| ahead(hold, exam.now));
    let what = format!("failed {}, is retried {again}: {error}", many(item.failures, "time"));
    Some(
        Finding::warning(FindingKind::Retrying, Subject::of(item), what)
            .since(item.due)
            .advice("nothing, if the cause is temporary; once it is gone, retry at once")
            .action(RemedyAction::Defer { work: RemedyTask::of(item), wait: Duration::ZERO }),
    )
}

/// An item that is held and renewed for longer than it should take, without progress.
async fn hung(item: &Item, exam: &Examination) -> Result<Option<Finding>> {
    let holder = item.holder.as_ref().filter(|holder| holder.deadline > exam.now);
    let Some(holder) = holder.filter(|holder| exam.is_hung(holder.since)) else {
        return Ok(None);
    };
    let progress = last_progress(item, exam).await?;
    let since = progress.map_or(holder.since, |progress| progress.max(holder.since));
    let what = format!(
        "worker {:?} holds it and has made no progress for {} ({})",
        holder.worker,
        span(exam.now.since(since)),
        many(item.attempts, "attempt")
    );
    Ok(exam.is_hung(since).then(|| {
        Finding::error(FindingKind::Hung, Subject::of(item), what).since(since).advice(
            "find out what that worker waits for; if work may take this long, pass a larger --hung-after; give the handler a \
             shorter timeout; if its process hangs, end it: the lease expires, and another worker continues",
        )
    }))
}

/// When a held item last made visible progress: a run records its progress in its history.
async fn last_progress(item: &Item, exam: &Examination) -> Result<Option<Timestamp>> {
    let Some(run) = run_of(&item.item) else { return Ok(None) };
    let newest = StreamQuery::backward(&keys::stream(&run)).limit(1);
    let page = exam.store.read_stream(newest).await?;
    Ok(page.events.first().map(|event| event.recorded_at))
}

/// Checks open runs, newest first. What a run waits for is found by reading its history, so the
/// number of runs is limited.
pub(super) async fn open_runs(exam: &Examination, findings: &mut Findings) -> Result<()> {
    let filter = RunFilter::all().state(RunState::Open);
    let page = listing::list(&*exam.store, &filter, None, exam.thresholds.runs).await?;
    for run in &page.items {
        unknown_outcomes(run, exam, findings).await;
        orphaned(run, exam, findings).await?;
    }
    if page.next.is_some() {
        let scanned = page.items.len();
        let what = format!("only the {scanned} newest open runs were checked; there may be more");
        findings.add(
            Finding::warning(FindingKind::Unfinished, Subject::Runs, what)
                .advice("check more of them")
                .action(RemedyAction::RaiseRunLimit { runs: scanned.saturating_mul(10) }),
        );
    }
    Ok(())
}

/// Steps that wait for an operator: their outcome is unknown, and they must not run twice.
async fn unknown_outcomes(run: &RunInfo, exam: &Examination, findings: &mut Findings) {
    let runs = Tidelock::over(exam.store.clone()).runs();
    // A run that was removed meanwhile has no findings.
    let Ok(RunStatus::Waiting { on, .. }) = runs.run(run.run.as_str()).status().await else {
        return;
    };
    for pending in on {
        let PendingWait::Verdict { step } = pending else { continue };
        let what = format!(
            "its worker died during step {:?}, so the outcome of the step is unknown",
            step.as_str()
        );
        findings.add(
            Finding::error(FindingKind::UnknownOutcome, Subject::Run(run.run.clone()), what)
                .since(run.started_at)
                .advice(
                    "find out whether it was done and record its result; or run it again with --rerun, or fail it with --fail ERROR",
                )
                .action(RemedyAction::Resolve { run: run.run.clone(), step }),
        );
    }
}

/// An orphaned run: its parent ended first (it was terminated, it failed, or its code did not
/// wait), so no run waits for its result. Ended runs past their retention are reported with the
/// unserved queues.
async fn orphaned(run: &RunInfo, exam: &Examination, findings: &mut Findings) -> Result<()> {
    let Some(parent) = &run.parent else { return Ok(()) };
    let slot = exam.store.get_one(&keys::summary(&parent.run)).await?;
    let (since, became) = match Summarized::of(&parent.run, &slot)? {
        Some(there) if there.summary.state.is_ended() => (there.summary.ended_at, "has ended"),
        Some(_) => return Ok(()),
        None => (None, "was removed"),
    };
    let what = format!(
        "it is still running, but run {:?}, which started it as {:?}, {became}: no run waits for its result",
        parent.run.as_str(),
        parent.name.as_str()
    );
    findings.add(
        Finding::warning(FindingKind::Orphaned, Subject::Run(run.run.clone()), what)
            .since(since)
            .advice("nothing, if it should continue; otherwise cancel it")
            .action(RemedyAction::Cancel { run: run.run.clone() }),
    );
    Ok(())
}

/// Checks claims for abandoned ones.
pub(super) async fn claims(exam: &Examination, findings: &mut Findings) -> Result<()> {
    let claims = Tidelock::over(exam.store.clone()).claims();
    let (mut after, mut scanned) = (None, 0);
    let mut outcomes = ClaimOutcomes::default();
    loop {
        let page = claims.page("", after.take(), limits::PAGE_SIZE).await?;
        scanned += page.items.len();
        page.items.iter().for_each(|claim| outcomes.count(claim, exam));
        page.items.iter().filter_map(|claim| abandoned(claim, exam)).for_each(|finding| {
            findings.add(finding);
        });
        match page.next {
            Some(next) if scanned < exam.thresholds.scan => after = Some(next),
            Some(_) => {
                findings.add(unfinished(Subject::Claims, scanned));
                break;
            }
            None => break,
        }
    }
    outcomes.finding(exam).into_iter().for_each(|finding| findings.add(finding));
    Ok(())
}

/// An abandoned claim: its lease expired before the claimant recorded a result.
///
/// The next request for the key takes the claim over, so a retry by the client fixes it. An
/// abandoned lock is as good as free. A request that is never retried stays unfinished, and its
/// side effects so far remain.
fn abandoned(claim: &ClaimInfo, exam: &Examination) -> Option<Finding> {
    let is_stalled = claim.since.is_none_or(|since| exam.is_stuck(since));
    if claim.state != ClaimState::Stale || !is_stalled {
        return None;
    }
    let severity = if claim.is_lock() { Severity::Warning } else { Severity::Error };
    let what = format!("the lease of {:?} expired without a result", claim.by);
    Some(
        Finding::new(FindingKind::Abandoned, severity, Subject::Claim(claim.key.clone()), what)
            .since(claim.since)
            .advice(
                "a repeated request takes it over; if none will come, check what was done so far, then release it",
            )
            .action(RemedyAction::Release { claim: claim.key.clone() }),
    )
}

/// Checks closings for those that no process works on.
pub(super) async fn closings(exam: &Examination, findings: &mut Findings) -> Result<()> {
    let (mut records, mut scanned) = (exam.store.rows(UnfinishedClosing::query()), 0);
    while let Some(record) = records.next().await? {
        if scanned == exam.thresholds.scan {
            findings.add(unfinished(Subject::Closings, scanned));
            return Ok(());
        }
        scanned += 1;
        if let Some(closing) = UnfinishedClosing::read(&*exam.store, &record).await? {
            half_closed(&closing, exam).into_iter().for_each(|finding| findings.add(finding));
        }
    }
    Ok(())
}

/// A half-closed stream: its closing was started, and no process works on it. Its events are
/// neither archived nor deleted.
fn half_closed(closing: &UnfinishedClosing, exam: &Examination) -> Option<Finding> {
    let (stream, record) = (&closing.stream, &closing.record);
    let is_held = closing.held_until.is_some_and(|until| until > exam.now);
    let last_held = closing.held_until.or(record.begun_at);
    if is_held || last_held.is_some_and(|held| !exam.is_stuck(held)) {
        return None;
    }
    let what = format!(
        "{} was started and not finished: of its events up to {}, those up to {} are in the archive; the stream still has all of them{}",
        record.plan,
        record.through,
        record.archived.map_or(0, Version::get),
        if record.plan.shuts() { ", and accepts no more events" } else { "" }
    );
    let finding = Finding::error(FindingKind::HalfClosed, Subject::Stream(stream.clone()), what)
        .since(record.begun_at);
    // A stream that continues with new state needs the program that has this state. A command can
    // close a stream for good.
    Some(match record.plan.goes_on() {
        true => finding.advice(format!(
            "call {} again in the program; it continues where it stopped",
            record.plan
        )),
        false => finding
            .advice("close it again, into the same archive; it continues where it stopped")
            .action(RemedyAction::Close { stream: stream.clone() }),
    })
}
