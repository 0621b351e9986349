//! `tidelock prioritize`: items are worked on sooner, or later, than others that are due.

use super::adjusted;
use crate::args::PrioritizeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;
use crate::selection::Selection;

pub(crate) async fn run(
    args: PrioritizeArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return adjusted::would("prioritized", &selection, out).await;
    }
    let adjusted = selection.prioritize(args.priority).await?;
    adjusted::was("prioritized", &selection, adjusted, out).await
}
