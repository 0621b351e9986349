//! `tidelock prioritize`: changes the priority of items.

use super::Cx;
use super::bulk_action;
use crate::args::PrioritizeArgs;
use crate::failure::Result;
use crate::selection::Selection;

pub(crate) async fn run(args: PrioritizeArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return bulk_action::would("prioritized", &selection, out).await;
    }
    let adjusted = selection.prioritize(args.priority).await?;
    bulk_action::was("prioritized", &selection, adjusted, out).await
}
