//! `tidelock resolve`: resolves a step with an unknown outcome.

use tidelock::Tidelock;
use tidelock::runs::Verdict;

use super::Cx;
use crate::args::ResolveArgs;
use crate::failure::Result;

pub(crate) async fn run(args: ResolveArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let verdict = match (args.verdict.done, args.verdict.fail) {
        (Some(result), _) => Verdict::Done(result),
        (None, Some(error)) => Verdict::Fail(error),
        (None, None) => Verdict::Rerun,
    };
    let runs = Tidelock::over(store_url.open().await?.store).runs();
    runs.run(&args.run).resolve(&args.step, verdict).await?;
    Ok(out.done("resolved", &format!("step {1:?} of run {0:?} is resolved", args.run, args.step))?)
}
