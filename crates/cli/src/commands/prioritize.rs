//! `tidelock prioritize`: changes the priority of items.

use super::bulk_action;
use crate::args::PrioritizeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::selection::Selection;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: PrioritizeArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return bulk_action::would("prioritized", &selection, out).await;
    }
    let adjusted = selection.prioritize(args.priority).await?;
    bulk_action::was("prioritized", &selection, adjusted, out).await
}
