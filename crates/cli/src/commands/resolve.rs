//! `tidelock resolve`: says what became of a step that must not be done twice.

use tidelock::Tidelock;
use tidelock::runs::Verdict;

use crate::args::ResolveArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: ResolveArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let verdict = match (args.verdict.done, args.verdict.fail) {
        (Some(result), _) => Verdict::Done(result),
        (None, Some(error)) => Verdict::Fail(error),
        (None, None) => Verdict::Rerun,
    };
    let runs = Tidelock::over(place.open().await?.store).runs();
    runs.run(&args.run).resolve(&args.step, verdict).await?;
    Ok(out.done(
        "resolved",
        &format!("run {:?} was told what became of step {:?}", args.run, args.step),
    )?)
}
