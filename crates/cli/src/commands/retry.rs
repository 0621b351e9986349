//! `tidelock retry`: a failed run goes on from the step that failed.

use tidelock::Tidelock;

use crate::args::RetryArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: RetryArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let runs = Tidelock::over(place.open().await?.store).runs();
    runs.run(&args.run).retry(&args.reason).await?;
    Ok(out.done("retried", &format!("run {:?} goes on from the step that failed", args.run))?)
}
