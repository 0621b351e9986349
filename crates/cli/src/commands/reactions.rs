//! `tidelock reactions`: lists targets with their lag, or the routing progress of reactions.

mod route;
mod target;

use std::sync::Arc;

use tidelock::Timestamp;
use tidelock::reactions::{ReactionFilter, Reactions, TargetInfo};
use tidelock::store::{Store, StoreExt};

use super::pages;
use crate::args::ReactionsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: ReactionsArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    match args.routes {
        true => routes(&store, &args, now, out).await,
        false => targets(&Reactions::new(store), &args, now, out).await,
    }
}

async fn routes(
    store: &Arc<dyn Store>,
    args: &ReactionsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<(), Failure> {
    let end = store.feed_end().await?;
    let mut routes = Reactions::new(store.clone()).routes().await?;
    if let Some(pattern) = &args.reaction {
        routes.retain(|route| pattern.matches(&route.reaction));
    }
    if routes.is_empty() {
        out.note("no such reaction was ever registered with this store")?;
    }
    let rows: Vec<_> =
        routes.into_iter().map(|route| route::Row::new(route, end, now, args.full)).collect();
    Ok(out.list(&rows)?)
}

async fn targets(
    reactions: &Reactions,
    args: &ReactionsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<(), Failure> {
    let row = |target: TargetInfo| {
        let is_shown = !args.lagging || target.lag() > 0;
        is_shown.then(|| target::Row::new(target, now, args.full))
    };
    let list = reactions.list(&filter(args));
    match pages::show(list, args.paging, out, row, "a narrower pattern").await? {
        true => Ok(()),
        false => Ok(out.note("no such target of a reaction in this store")?),
    }
}

fn filter(args: &ReactionsArgs) -> ReactionFilter {
    let filter = ReactionFilter::all()
        .reactions(args.reaction.clone().unwrap_or_default())
        .targets(args.target.clone().unwrap_or_default());
    if args.blocked { filter.blocked(true) } else { filter }
}
