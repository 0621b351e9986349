//! `tidelock cancel`: a run is asked to end and to clean up, or is ended at once.

use tidelock::Tidelock;

use super::confirm::confirm;
use crate::args::CancelArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: CancelArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let run = Tidelock::over(place.open().await?.store).runs().run(&args.run);
    if !args.terminate {
        run.cancel(&args.reason).await?;
        return Ok(out.done("cancelling", &format!("run {:?} was asked to cancel", args.run))?);
    }
    let what = format!("{:?} ends at once, without clean-up; its children go on", args.run);
    if args.dry_run {
        run.get().await?;
        return Ok(out.note(&format!("dry run: run {what}; nothing was done"))?);
    }
    confirm(&format!("Run {what}."), args.yes)?;
    run.terminate(&args.reason).await?;
    Ok(out.done("terminated", &format!("run {:?} is terminated", args.run))?)
}
