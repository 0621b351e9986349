//! `tidelock cancel`: asks runs to cancel, or terminates them.

use tidelock::Tidelock;
use tidelock::runs::{RunAction, RunHandle};

use super::Cx;
use super::bulk_runs::{self, Asked};
use super::confirm::confirm;
use crate::args::CancelArgs;
use crate::failure::Result;
use crate::output::{Output, many};

pub(crate) async fn run(args: CancelArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    let CancelArgs { which, reason, terminate, dry_run, yes, .. } = &args;
    if let Some(id) = &which.run {
        return one(&tidelock.runs().run(id), id, &args, out).await;
    }
    let action = if *terminate { RunAction::Terminate } else { RunAction::Cancel };
    let asked = Asked { action, reason, dry_run: *dry_run, yes: *yes };
    bulk_runs::run(&tidelock, which, asked, out).await
}

async fn one(run: &RunHandle, id: &str, args: &CancelArgs, out: &mut Output) -> Result<()> {
    let what = match (args.terminate, args.children) {
        (true, false) => {
            format!("{id:?} is terminated at once, without clean-up; its children continue")
        }
        (true, true) => format!("{id:?} and its children are terminated at once, without clean-up"),
        (false, _) => format!("{id:?} is asked to cancel"),
    };
    if args.dry_run {
        run.get().await?;
        return Ok(out.note(&format!("dry run: run {what}; nothing was done"))?);
    }
    if !args.terminate {
        run.cancel(&args.reason).await?;
        return Ok(out.done("cancelling", &format!("run {what}"))?);
    }
    confirm(&format!("Run {what}."), args.yes)?;
    if args.children {
        let children = many(run.terminate_with_children(&args.reason).await?, "descendant");
        let what = format!("run {id:?} and {children} are terminated");
        return Ok(out.done("terminated", &what)?);
    }
    run.terminate(&args.reason).await?;
    Ok(out.done("terminated", &format!("run {id:?} is terminated"))?)
}
