//! `tidelock reactions`: lists targets with their lag, the routing progress of reactions, or the
//! events that were skipped.

mod route;
mod skipped;
mod target;

use std::sync::Arc;

use tidelock::Timestamp;
use tidelock::reactions::{ReactionFilter, Reactions};
use tidelock::store::{NamePattern, Store, StoreExt};

use super::{Cx, paged};
use crate::args::ReactionsArgs;
use crate::failure::Result;
use crate::output::Output;

pub(crate) async fn run(args: ReactionsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    match (args.routes, args.skipped) {
        (true, _) => routes(&store, &args, now, out).await,
        (_, true) => skipped(&Reactions::new(store), &args, out).await,
        _ => targets(&Reactions::new(store), &args, now, out).await,
    }
}

async fn routes(
    store: &Arc<dyn Store>,
    args: &ReactionsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<()> {
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
) -> Result<()> {
    let filter = filter(args);
    let read = async |after, limit| {
        let page = reactions.list(&filter).after(after).limit(limit).await?;
        let lagging = page.items.into_iter().filter(|target| !args.lagging || target.lag() > 0);
        let rows = lagging.map(|target| target::Row::new(target, now, args.full)).collect();
        Ok((rows, page.next))
    };
    let more = |_| "there may be more: --all, or a narrower pattern".to_owned();
    let none = "no such target of a reaction in this store";
    paged::list(args.paging, out, read, none, more).await
}

async fn skipped(reactions: &Reactions, args: &ReactionsArgs, out: &mut Output) -> Result<()> {
    let is_meant = |pattern: &Option<NamePattern>, name: &str| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    };
    let read = async |after, limit| {
        let page = reactions.skipped(None).after(after).limit(limit).await?;
        let meant = page.items.into_iter().filter(|event| {
            is_meant(&args.reaction, &event.reaction) && is_meant(&args.target, &event.target)
        });
        Ok((meant.map(|event| skipped::Row::new(event, args.full)).collect(), page.next))
    };
    let more = |_| "there may be more: --all, or a narrower pattern".to_owned();
    paged::list(args.paging, out, read, "no such event was skipped", more).await
}

fn filter(args: &ReactionsArgs) -> ReactionFilter {
    let filter = ReactionFilter::all()
        .reactions(args.reaction.clone().unwrap_or_default())
        .targets(args.target.clone().unwrap_or_default());
    if args.blocked { filter.blocked(true) } else { filter }
}
