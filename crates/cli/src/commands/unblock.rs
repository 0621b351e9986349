//! `tidelock unblock`: unblocks items, which continue where they stopped.

use super::Cx;
use super::bulk_action;
use crate::args::UnblockArgs;
use crate::failure::Result;
use crate::selection::Selection;

pub(crate) async fn run(args: UnblockArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which).blocked();
    if args.dry_run {
        return bulk_action::would("unblocked", &selection, out).await;
    }
    let adjusted = selection.unblock().await?;
    bulk_action::was("unblocked", &selection, adjusted, out).await
}
