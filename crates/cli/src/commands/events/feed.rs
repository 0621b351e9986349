//! The feed of all streams.

use tidelock::store::{FeedFilter, FeedQuery, Position, Store, StoreExt, Topic, limits};

use super::follow_backoff::FollowBackoff;
use super::wait;
use crate::args::EventsArgs;
use crate::failure::Result;
use crate::output::Output;

pub(super) async fn show(store: &dyn Store, args: &EventsArgs, out: &mut Output) -> Result<()> {
    match args.follow {
        true => follow(store, args, out).await,
        false => list(store, args, out).await,
    }
}

async fn list(store: &dyn Store, args: &EventsArgs, out: &mut Output) -> Result<()> {
    let (mut after, mut left) = (args.after.unwrap_or(Position::START), args.paging.wanted());
    let mut any = false;
    loop {
        let page = store.full_page(query(args, after, left.min(limits::PAGE_SIZE))).await?;
        after = page.next;
        left -= page.events.len().min(left);
        any |= !page.events.is_empty();
        super::show(page.events, args, out)?;
        match page.at_end {
            true if any => return Ok(()),
            true => return Ok(out.note("no such event in this store")?),
            false => {}
        }
        if left == 0 {
            return Ok(out.note(&format!("there may be more: --after {after}, or --all"))?);
        }
    }
}

async fn follow(store: &dyn Store, args: &EventsArgs, out: &mut Output) -> Result<()> {
    // Subscribed before the first read, so that no change is missed.
    let mut signal = store.signal(Topic::Log);
    let mut backoff = FollowBackoff::default();
    let mut from = args.after;
    loop {
        let Some(after) = from else {
            from = backoff.take(store.feed_end().await, out).await?;
            continue;
        };
        let answer = store.read_feed(query(args, after, limits::PAGE_SIZE)).await;
        let Some(page) = backoff.take(answer, out).await? else { continue };
        from = Some(page.next);
        super::show(page.events, args, out)?;
        if page.at_end {
            wait(&mut signal).await;
        }
    }
}

fn query(args: &EventsArgs, after: Position, limit: usize) -> FeedQuery {
    let filter = FeedFilter {
        stream_prefix: args.prefix.clone(),
        types: args.types.clone(),
        metadata: args.metadata.clone(),
    };
    FeedQuery { filter, limit, ..FeedQuery::after(after) }
}
