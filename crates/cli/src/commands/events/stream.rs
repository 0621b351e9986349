//! The events of one stream.

use tidelock::store::{
    Direction, Store, StoreExt, StoredEvent, StreamName, StreamQuery, StreamState, Topic, Version,
    limits,
};

use super::follow_backoff::FollowBackoff;
use super::wait;
use crate::args::EventsArgs;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) async fn list(
    store: &dyn Store,
    stream: &StreamName,
    args: &EventsArgs,
    out: &mut Output,
) -> Result<()> {
    let direction = if args.backward { Direction::Backward } else { Direction::Forward };
    let (mut from, mut left) = (args.from, args.paging.wanted());
    loop {
        let limit = left.min(limits::PAGE_SIZE);
        let query = StreamQuery { stream: stream.clone(), direction, from, limit };
        let page = store.full_page(query).await?;
        if page.state == StreamState::Absent {
            return Err(Failure::refused(
                format!("stream {stream:?} does not exist"),
                "tidelock streams, to list the existing ones",
            ));
        }
        let events: Vec<_> =
            page.events.into_iter().filter(|event| is_wanted(event, args)).collect();
        left -= events.len().min(left);
        super::show(events, args, out)?;
        match page.next {
            Some(next) if left == 0 => {
                return Ok(out.note(&format!("there are more: --from {next}, or --all"))?);
            }
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

pub(super) async fn show(
    store: &dyn Store,
    stream: &StreamName,
    args: &EventsArgs,
    out: &mut Output,
) -> Result<()> {
    match args.follow {
        true => follow(store, stream, args, out).await,
        false => list(store, stream, args, out).await,
    }
}

async fn follow(
    store: &dyn Store,
    stream: &StreamName,
    args: &EventsArgs,
    out: &mut Output,
) -> Result<()> {
    // Subscribed before the first read, so that no change is missed.
    let mut signal = store.signal(Topic::Log);
    let mut backoff = FollowBackoff::default();
    let mut from = args.from;
    loop {
        let Some(next) = from else {
            from = backoff.take(after_last(store, stream).await, out).await?;
            continue;
        };
        let answer = store.read_stream(StreamQuery::forward(stream).from(next)).await;
        let Some(page) = backoff.take(answer, out).await? else { continue };
        from = Some(page.events.last().map_or(next, |event| event.version.plus(1)));
        let more = page.next.is_some();
        super::show(
            page.events.into_iter().filter(|event| is_wanted(event, args)).collect(),
            args,
            out,
        )?;
        if !more {
            wait(&mut signal).await;
        }
    }
}

async fn after_last(store: &dyn Store, stream: &StreamName) -> tidelock::store::Result<Version> {
    let head = store.head(stream).await?;
    Ok(head.state.version().map_or(Version::FIRST, |version| version.plus(1)))
}

fn is_wanted(event: &StoredEvent, args: &EventsArgs) -> bool {
    args.types.is_empty() || args.types.contains(&event.event_type)
}
