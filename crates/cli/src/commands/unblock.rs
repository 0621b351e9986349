//! `tidelock unblock`: unblocks items, which continue where they stopped.

use super::bulk_action;
use crate::args::UnblockArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::selection::Selection;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: UnblockArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which).blocked();
    if args.dry_run {
        return bulk_action::would("unblocked", &selection, out).await;
    }
    let adjusted = selection.unblock().await?;
    bulk_action::was("unblocked", &selection, adjusted, out).await
}
