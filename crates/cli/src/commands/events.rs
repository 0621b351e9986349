//! `tidelock events`: the events of a stream, or of all, and those that come while one looks.
//!
//! Following never skips an event: it reads on from where it stopped, and a signal only says that
//! it may be worth to look. A store that cannot be reached is waited for.

mod feed;
mod follow_backoff;
mod row;
mod stream;

use std::time::Duration;

use tidelock::{ChangeHint, StoredEvent};

use crate::args::EventsArgs;
use crate::commands::interrupt::interrupted;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;
use row::Row;

/// How long a follower waits for a signal before it looks for itself.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(
    args: EventsArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let showing = async {
        match &args.stream {
            Some(stream) => stream::show(&*store, stream, &args, out).await,
            None => feed::show(&*store, &args, out).await,
        }
    };
    if !args.follow {
        // What has an end is ended by an interrupt as any program is.
        return showing.await;
    }
    let end = interrupted();
    tokio::select! {
        shown = showing => shown,
        () = end => Ok(()),
    }
}

/// Shows events, all together or one by one as they come.
fn show(events: Vec<StoredEvent>, args: &EventsArgs, out: &mut Output) -> Result<(), Failure> {
    let rows: Vec<Row> = events.into_iter().map(|event| Row::new(event, args.full)).collect();
    match args.follow {
        true => rows.iter().try_for_each(|row| out.one(row))?,
        false => out.list(&rows)?,
    }
    // Whoever follows wants to see an event when it comes.
    Ok(out.flush()?)
}

/// Waits until it may be worth to look again.
async fn wait(signal: &mut ChangeHint) {
    let _in_time = tokio::time::timeout(LOOK, signal.wait()).await;
}
