//! `tidelock defer`: keeps items from being leased before a time.

use super::bulk_action;
use crate::args::DeferArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::selection::Selection;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: DeferArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which);
    if args.dry_run {
        return bulk_action::would("deferred", &selection, out).await;
    }
    let adjusted = selection.defer(args.until).await?;
    bulk_action::was("deferred", &selection, adjusted, out).await
}
