//! `tidelock events`: shows the events of a stream, or of all streams, and follows new ones.
//!
//! Following never skips an event: it reads on from where it stopped, and a change hint only says
//! that reading may be worthwhile. An unavailable store is retried.

mod feed;
mod follow_backoff;
mod row;
mod stream;

use std::time::Duration;

use tidelock::store::{ChangeHint, StoredEvent};

use super::Cx;
use crate::args::EventsArgs;
use crate::commands::interrupt::interrupted;
use crate::failure::Result;
use crate::output::Output;
use row::Row;

/// How long a follower waits for a change hint before it polls.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: EventsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let showing = async {
        match &args.stream {
            Some(stream) => stream::show(&*store, stream, &args, out).await,
            None => feed::show(&*store, &args, out).await,
        }
    };
    if !args.follow {
        // A finite command is ended by an interrupt like any program.
        return showing.await;
    }
    let end = interrupted();
    tokio::select! {
        shown = showing => shown,
        () = end => Ok(()),
    }
}

/// Shows events, as a page or one by one.
fn show(events: Vec<StoredEvent>, args: &EventsArgs, out: &mut Output) -> Result<()> {
    let rows: Vec<Row> = events.into_iter().map(|event| Row::new(event, args.full)).collect();
    match args.follow {
        true => rows.iter().try_for_each(|row| out.one(row))?,
        false => out.list(&rows)?,
    }
    // A follower shows an event immediately.
    Ok(out.flush()?)
}

/// Waits for a change hint, or the polling interval.
async fn wait(signal: &mut ChangeHint) {
    let _in_time = tokio::time::timeout(LOOK, signal.wait()).await;
}
