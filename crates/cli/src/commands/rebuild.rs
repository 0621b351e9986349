//! `tidelock rebuild`: rebuilds a projection beside the rows that are read, or gives a rebuild up.

use tidelock::reactions::{Reactions, RebuildOutcome};

use super::Cx;
use super::confirm::confirm;
use super::rows::unknown;
use crate::args::RebuildArgs;
use crate::failure::{Failure, Result};

pub(crate) async fn run(args: RebuildArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let reactions = Reactions::new(store_url.open().await?.store);
    let name = &args.projection;
    let Some(info) = reactions.projection(name).await? else {
        return Err(unknown(&reactions, name).await?);
    };
    if args.cancel {
        return match reactions.cancel_rebuild(name).await? {
            true => Ok(out.done("cancelled", &format!("the rebuild of {name:?} is given up"))?),
            false => Err(Failure::refused(
                format!("projection {name:?} is not being rebuilt"),
                "tidelock projections lists the rebuilds",
            )),
        };
    }
    if args.dry_run {
        let what = match info.rebuild.filter(|rebuild| rebuild.error.is_none()) {
            Some(_) => "is being rebuilt already",
            None => "would be rebuilt",
        };
        return Ok(out.note(&format!("dry run: projection {name:?} {what}, nothing was done"))?);
    }
    confirm(
        &format!("Every event of projection {name:?} is folded again, into rows beside its own."),
        args.yes,
    )?;
    let outcome = match args.partial {
        true => reactions.rebuild_partial(name).await?,
        false => reactions.rebuild(name).await?,
    };
    match outcome {
        RebuildOutcome::Started => Ok(out.done(
            "rebuilding",
            &format!("{name:?} is rebuilt by its processes; tidelock projections shows how far"),
        )?),
        RebuildOutcome::Unregistered => Err(unknown(&reactions, name).await?),
        _ => Ok(out.done("rebuilding", &format!("{name:?} is being rebuilt already"))?),
    }
}
