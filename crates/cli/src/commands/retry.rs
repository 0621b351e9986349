//! `tidelock retry`: retries failed runs from the steps that failed.

use tidelock::Tidelock;
use tidelock::runs::RunAction;

use super::Cx;
use super::bulk_runs::{self, Asked};
use crate::args::RetryArgs;
use crate::failure::Result;

pub(crate) async fn run(args: RetryArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    let RetryArgs { which, reason, dry_run, yes } = &args;
    let Some(id) = &which.run else {
        let asked = Asked { action: RunAction::Retry, reason, dry_run: *dry_run, yes: *yes };
        return bulk_runs::run(&tidelock, which, asked, out).await;
    };
    let run = tidelock.runs().run(id);
    let what = format!("run {id:?} continues at the step that failed");
    if *dry_run {
        run.get().await?;
        return Ok(out.note(&format!("dry run: {what}; nothing was done"))?);
    }
    run.retry(reason).await?;
    Ok(out.done("retried", &what)?)
}
