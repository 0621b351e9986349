//! `tidelock skip`: a target goes on without the event that it is blocked on.

use tidelock::Missing;
use tidelock::reactions::{Reactions, SkipOutcome};

use super::Cx;
use super::confirm::confirm;
use crate::args::SkipArgs;
use crate::failure::{Failure, Result};

pub(crate) async fn run(args: SkipArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let reactions = Reactions::new(store_url.open().await?.store);
    let SkipArgs { reaction, target, reason, .. } = &args;
    let what = format!("target {target:?} of reaction {reaction:?}");
    let Some(seen) = reactions.target(reaction, target).await? else {
        let missing = reactions.missing_reaction(reaction).await?;
        return Err(missing.unwrap_or(Missing::Target { name: target.clone() }).into());
    };
    if !seen.blocked {
        return Err(not_blocked(&what));
    }
    let event = format!("the event after {} that blocks {what}", seen.at);
    if args.dry_run {
        return Ok(out.note(&format!("dry run: {event} would be skipped, nothing was done"))?);
    }
    confirm(&format!("Skip {event}: it is never handled."), args.yes)?;
    match reactions.skip(&seen, reason).await? {
        SkipOutcome::Requested => {
            Ok(out.done("skipped", &format!("{event} is skipped by its next worker"))?)
        }
        SkipOutcome::NotBlocked => Err(not_blocked(&what)),
        _ => Err(Failure::refused(
            format!("{what} has moved: it may wait for another event now"),
            "the same command again, if it is still meant",
        )),
    }
}

fn not_blocked(what: &str) -> Failure {
    Failure::refused(
        format!("{what} is not blocked: nothing is to be skipped"),
        "tidelock reactions --blocked lists those that are",
    )
}
