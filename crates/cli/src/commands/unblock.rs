//! `tidelock unblock`: blocked items go on where they stopped.

use super::adjusted;
use crate::args::UnblockArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;
use crate::selection::Selection;

pub(crate) async fn run(
    args: UnblockArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let selection = Selection::new(&store, args.which).blocked();
    if args.dry_run {
        return adjusted::would("unblocked", &selection, out).await;
    }
    let adjusted = selection.unblock().await?;
    adjusted::was("unblocked", &selection, adjusted, out).await
}
