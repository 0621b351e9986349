//! `tidelock retry`: retries a failed run from the step that failed.

use tidelock::Tidelock;

use crate::args::RetryArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: RetryArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let runs = Tidelock::over(store_url.open().await?.store).runs();
    runs.run(&args.run).retry(&args.reason).await?;
    Ok(out.done("retried", &format!("run {:?} continues at the step that failed", args.run))?)
}
