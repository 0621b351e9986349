//! `tidelock release`: frees a claim whose holder died.

use tidelock::Tidelock;
use tidelock::claims::Released;

use super::Cx;
use crate::args::ReleaseArgs;
use crate::failure::{Failure, Result};
use crate::output::quoted;

pub(crate) async fn run(args: ReleaseArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let claims = Tidelock::over(store_url.open().await?.store).claims();
    let claim = &args.claim;
    match claims.release_stale(claim).await? {
        Released::Free { by } => Ok(out.done(
            "released",
            &format!("claim {claim:?} is released; its last holder was {by:?}"),
        )?),
        Released::Held { by, until } => Err(Failure::refused(
            format!(
                "claim {claim:?}: held by {by:?}{}",
                until.map_or_else(String::new, |at| format!(", until {at}"))
            ),
            format!("tidelock claims {}, to see when its lease expires", quoted(claim)),
        )),
        Released::Over => Err(Failure::refused(
            format!("claim {claim:?}: it was completed, and its result is kept"),
            format!("tidelock claims {}, to see for how long", quoted(claim)),
        )),
        Released::Absent => Err(Failure::refused(
            format!("claim {claim:?}: it is not held"),
            "tidelock claims, to list those that are",
        )),
    }
}
