//! What `cancel` and `retry` have in common when a filter selects the runs: a dry run that counts,
//! a confirmation, and batches with their progress.

use serde::Serialize;
use tidelock::Tidelock;
use tidelock::runs::{BulkRuns, RunAction, RunBatch, RunCursor, RunFilter};
use tidelock::store::{Store, Timestamp};

use super::confirm::confirm;
use crate::args::RunSelector;
use crate::failure::Result;
use crate::output::{Output, Style, many};
use crate::progress::Progress;

/// The number of refused runs that are named.
const NAMED: usize = 20;

/// A bulk operation, as it was asked for.
pub(crate) struct Asked<'a> {
    pub(crate) action: RunAction,
    pub(crate) reason: &'a str,
    pub(crate) dry_run: bool,
    pub(crate) yes: bool,
}

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done<'a> {
    done: &'a str,
    matched: u64,
    changed: u64,
}

pub(crate) async fn run(
    tidelock: &Tidelock,
    which: &RunSelector,
    asked: Asked<'_>,
    out: &mut Output,
) -> Result<()> {
    let runs = tidelock.runs();
    let bulk = runs.bulk(&filter(which, &**tidelock.store()).await?).parked(which.parked);
    let done = verb(asked.action);
    if asked.dry_run || !asked.yes {
        let matched = count(&bulk, asked.action).await?;
        if matched == 0 {
            check_name(tidelock, which).await?;
        }
        let would = format!("{} would be {done}", many(matched, "run"));
        if asked.dry_run {
            return Ok(out.note(&format!("dry run: {would}, nothing was done"))?);
        }
        if matched > 0 {
            confirm(&format!("{would}."), asked.yes)?;
        }
    }
    let RunBatch { matched, changed, .. } = carry_out(&bulk, &asked, out).await?;
    if matched == 0 {
        check_name(tidelock, which).await?;
    }
    if out.is_json() {
        return Ok(out.json(&Done { done, matched, changed })?);
    }
    Ok(out.line(Style::Plain, &format!("{done}: {changed} of {}", many(matched, "run")))?)
}

async fn carry_out(bulk: &BulkRuns, asked: &Asked<'_>, out: &mut Output) -> Result<RunBatch> {
    let progress = Progress::counting("runs");
    let (mut sum, mut after): (_, Option<RunCursor>) = (RunBatch::default(), None);
    loop {
        let done = bulk.clone().after(after).carry_out(asked.action, asked.reason).await?;
        progress.moved(done.matched);
        sum.matched += done.matched;
        sum.changed += done.changed;
        sum.refused.extend(done.refused);
        sum.refused.truncate(NAMED);
        after = done.next;
        if after.is_none() {
            drop(progress);
            for refused in &sum.refused {
                out.note(&refused.error)?;
            }
            return Ok(sum);
        }
    }
}

async fn count(bulk: &BulkRuns, action: RunAction) -> Result<u64> {
    let (mut matched, mut after) = (0, None);
    loop {
        let batch = bulk.clone().after(after).limit(1_000).count(action).await?;
        matched += batch.matched;
        after = batch.next;
        if after.is_none() {
            return Ok(matched);
        }
    }
}

async fn filter(which: &RunSelector, store: &dyn Store) -> Result<RunFilter> {
    let filter = RunFilter::all();
    let filter = which.workflow.iter().fold(filter, RunFilter::workflow);
    let mut filter =
        which.attribute.iter().fold(filter, |filter, (name, value)| filter.attribute(name, value));
    if let Some(age) = which.older_than {
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let before = store.now().await?.micros().saturating_sub(micros).max(0);
        filter = filter.before(Timestamp::from_micros(before)?);
    }
    Ok(filter)
}

/// If nothing was selected because there is no such workflow, that is an error.
async fn check_name(tidelock: &Tidelock, which: &RunSelector) -> Result<()> {
    let Some(workflow) = &which.workflow else { return Ok(()) };
    let any = RunFilter::all().workflow(workflow);
    if tidelock.runs().list(&any).limit(1).await?.items.is_empty()
        && let Some(missing) = tidelock.runs().missing_workflow(workflow).await?
    {
        return Err(missing.into());
    }
    Ok(())
}

fn verb(action: RunAction) -> &'static str {
    match action {
        RunAction::Cancel => "asked to cancel",
        RunAction::Terminate => "terminated",
        RunAction::Retry => "retried",
    }
}
