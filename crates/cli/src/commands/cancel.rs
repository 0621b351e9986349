//! `tidelock cancel`: asks a run to cancel, or terminates it.

use tidelock::Tidelock;

use super::Cx;
use super::confirm::confirm;
use crate::args::CancelArgs;
use crate::failure::Result;

pub(crate) async fn run(args: CancelArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let run = Tidelock::over(store_url.open().await?.store).runs().run(&args.run);
    if !args.terminate {
        run.cancel(&args.reason).await?;
        return Ok(out.done("cancelling", &format!("run {:?} is asked to cancel", args.run))?);
    }
    let what =
        format!("{:?} is terminated at once, without clean-up; its children continue", args.run);
    if args.dry_run {
        run.get().await?;
        return Ok(out.note(&format!("dry run: run {what}; nothing was done"))?);
    }
    confirm(&format!("Run {what}."), args.yes)?;
    run.terminate(&args.reason).await?;
    Ok(out.done("terminated", &format!("run {:?} is terminated", args.run))?)
}
