//! `tidelock release`: a claim whose claimant died is free again.

use tidelock::Tidelock;
use tidelock::claims::Released;

use crate::args::ReleaseArgs;
use crate::failure::Failure;
use crate::output::{Output, quoted};
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: ReleaseArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let claims = Tidelock::over(place.open().await?.store).claims();
    let claim = &args.claim;
    match claims.release_stale(claim).await? {
        Released::Free { by } => {
            Ok(out.done("released", &format!("claim {claim:?} is free; {by:?} was at it last"))?)
        }
        Released::Held { by, until } => Err(Failure::refused(
            format!(
                "claim {claim:?}: {by:?} is at it{}",
                until.map_or_else(String::new, |at| format!(", until {at}"))
            ),
            format!("tidelock claims {}, to see when its lease has run out", quoted(claim)),
        )),
        Released::Over => Err(Failure::refused(
            format!("claim {claim:?}: it was done, and its result is kept"),
            format!("tidelock claims {}, to see for how long", quoted(claim)),
        )),
        Released::Absent => Err(Failure::refused(
            format!("claim {claim:?}: nobody is at it"),
            "tidelock claims, to see which there are",
        )),
    }
}
