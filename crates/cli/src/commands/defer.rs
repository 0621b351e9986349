//! `tidelock defer`: items are not worked on before a moment.

use super::adjusted;
use crate::args::DeferArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;
use crate::selection::Selection;

pub(crate) async fn run(
    args: DeferArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return adjusted::would("deferred", &selection, out).await;
    }
    let adjusted = selection.defer(args.until).await?;
    adjusted::was("deferred", &selection, adjusted, out).await
}
