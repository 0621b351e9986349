//! `tidelock defer`: keeps items from being leased before a time.

use super::Cx;
use super::bulk_action;
use crate::args::DeferArgs;
use crate::failure::Result;
use crate::selection::Selection;

pub(crate) async fn run(args: DeferArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return bulk_action::would("deferred", &selection, out).await;
    }
    let adjusted = selection.defer(args.until).await?;
    bulk_action::was("deferred", &selection, adjusted, out).await
}
