//! `tidelock close`: a stream's events go to a file, and the stream is closed for good.

mod shelf;

use serde::Serialize;
use tidelock::{Closed, Closing, StoreExt, StoredEvent, StreamState, Tidelock, Unread, discard};

use super::confirm::confirm;
use crate::args::CloseArgs;
use crate::failure::Failure;
use crate::output::{Look, Output, many};
use crate::place::Place;
use crate::progress::Progress;
use shelf::Shelf;

/// What was done, for machines.
#[derive(Debug, Serialize)]
struct Done {
    done: &'static str,
    stream: String,
    through: u64,
    archived: u64,
}

pub(crate) async fn run(args: CloseArgs, place: &Place, out: &mut Output) -> Result<(), Failure> {
    let tidelock = Tidelock::over(place.open().await?.store);
    let events = events(&tidelock, &args).await?;
    for reaction in &args.ignore {
        if let Some(missing) = tidelock.reactions().missing_reaction(reaction).await? {
            return Err(missing.into());
        }
    }
    let where_to = match &args.archive {
        Some(path) => format!("will be in {:?}", path.display()),
        None => "will be lost".to_owned(),
    };
    let counted = many(events, "event");
    let what =
        format!("Stream {:?} takes no more events. {counted} of it {where_to}.", args.stream);
    if args.dry_run {
        return Ok(out.note(&format!("dry run: {what} Nothing was done."))?);
    }
    confirm(&what, args.yes)?;
    let closed = books(&tidelock, &args, Progress::of(events, "events"))?.close().await?;
    tell(&closed, args.discard, out)
}

async fn events(tidelock: &Tidelock, args: &CloseArgs) -> Result<u64, Failure> {
    let head = tidelock.store().head(&args.stream).await?;
    if head.state == StreamState::Absent {
        return Err(Failure::refused(
            format!("stream {:?} does not exist", args.stream),
            "tidelock streams, to see which do",
        ));
    }
    Ok(head.count)
}

fn books(
    tidelock: &Tidelock,
    args: &CloseArgs,
    progress: Progress,
) -> Result<Closing<Unread>, Failure> {
    let closing = match &args.archive {
        Some(path) => {
            let shelf = Shelf::open(path, &args.stream)
                .map_err(|e| Failure::file("write", &path.to_string_lossy(), &e))?;
            tidelock.books(&args.stream, shelf.archive(progress))
        }
        None => tidelock.books(&args.stream, move |events: Vec<StoredEvent>| {
            progress.moved(events.len() as u64);
            discard(events)
        }),
    };
    Ok(args.ignore.iter().fold(closing.patience(args.patience), Closing::ignoring))
}

fn tell(closed: &Closed, discarded: bool, out: &mut Output) -> Result<(), Failure> {
    let Closed { stream, through, archived } = closed;
    if out.is_json() {
        let (stream, through) = (stream.to_string(), through.get());
        return Ok(out.json(&Done { done: "closed", stream, through, archived: *archived })?);
    }
    let (events, whither) = (many(*archived, "event"), if discarded { "lost" } else { "archived" });
    Ok(out.line(
        Look::Plain,
        &format!("stream {stream:?} is closed at version {through}; {events} {whither}"),
    )?)
}
