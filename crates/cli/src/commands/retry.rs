//! `tidelock retry`: retries a failed run from the step that failed.

use tidelock::Tidelock;

use super::Cx;
use crate::args::RetryArgs;
use crate::failure::Result;

pub(crate) async fn run(args: RetryArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let runs = Tidelock::over(store_url.open().await?.store).runs();
    runs.run(&args.run).retry(&args.reason).await?;
    Ok(out.done("retried", &format!("run {:?} continues at the step that failed", args.run))?)
}
