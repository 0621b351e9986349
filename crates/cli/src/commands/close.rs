//! `tidelock close`: archives a stream's events to a file, and closes it permanently.

mod archive_file;

use serde::Serialize;
use tidelock::Tidelock;
use tidelock::closing::{AnyStream, CloseSummary, Closing, discard};
use tidelock::store::{StoreExt, StoredEvent, StreamState};

use super::confirm::confirm;
use super::{Cx, target_file};
use crate::args::CloseArgs;
use crate::failure::{Failure, Result};
use crate::output::{Output, Style, many};
use crate::progress::Progress;
use archive_file::ArchiveFile;

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    done: &'static str,
    stream: String,
    through: u64,
    archived: u64,
}

pub(crate) async fn run(args: CloseArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    if let Some(path) = &args.archive {
        target_file::check(path, store_url)?;
    }
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
        format!("Stream {:?} accepts no more events. {counted} of it {where_to}.", args.stream);
    if args.dry_run {
        return Ok(out.note(&format!("dry run: {what} Nothing was done."))?);
    }
    confirm(&what, args.yes)?;
    let closed = books(&tidelock, &args, Progress::of(events, "events"))?.close().await?;
    tell(&closed, args.discard, out)
}

async fn events(tidelock: &Tidelock, args: &CloseArgs) -> Result<u64> {
    let head = tidelock.store().head(&args.stream).await?;
    if head.state == StreamState::Absent {
        return Err(Failure::refused(
            format!("stream {:?} does not exist", args.stream),
            "tidelock streams, to list the existing ones",
        ));
    }
    Ok(head.count)
}

fn books(tidelock: &Tidelock, args: &CloseArgs, progress: Progress) -> Result<Closing<AnyStream>> {
    let closing = match &args.archive {
        Some(path) => {
            let archive = ArchiveFile::open(path, &args.stream)
                .map_err(|e| Failure::file("write", &path.to_string_lossy(), &e))?;
            tidelock.archive_stream_to(&args.stream, archive.archive(progress))
        }
        None => tidelock.archive_stream_to(&args.stream, move |events: Vec<StoredEvent>| {
            progress.moved(events.len() as u64);
            discard(events)
        }),
    };
    Ok(args.ignore.iter().fold(closing.within(args.within), Closing::ignore_reaction))
}

fn tell(closed: &CloseSummary, discarded: bool, out: &mut Output) -> Result<()> {
    let CloseSummary { stream, through, archived } = closed;
    if out.is_json() {
        let (stream, through) = (stream.to_string(), through.get());
        return Ok(out.json(&Done { done: "closed", stream, through, archived: *archived })?);
    }
    let (events, whither) = (many(*archived, "event"), if discarded { "lost" } else { "archived" });
    Ok(out.line(
        Style::Plain,
        &format!("stream {stream:?} is closed at version {through}; {events} {whither}"),
    )?)
}
