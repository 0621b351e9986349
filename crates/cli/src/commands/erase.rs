//! `tidelock erase`: erases the personal data of a subject; its events stay.

use serde::Serialize;
use tidelock::Tidelock;
use tidelock::events::SubjectInfo;

use super::Cx;
use super::confirm::confirm;
use crate::args::EraseArgs;
use crate::failure::{Failure, Result};
use crate::output::{Style, many};

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    done: &'static str,
    events: usize,
}

pub(crate) async fn run(args: EraseArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    let subject = &args.subject;
    let SubjectInfo { events, erased_at, .. } = tidelock.subject(subject).await?;
    if events == 0 && erased_at.is_none() {
        return Err(Failure::refused(
            format!("there is no personal data of subject {subject:?}"),
            "the subject as the events name it",
        ));
    }
    let of = format!("the personal data of subject {subject:?} in {}", many(events, "event"));
    if args.dry_run {
        return Ok(out.note(&format!("dry run: {of} would be erased, nothing was done"))?);
    }
    confirm(&format!("Erase {of}: it is lost, and none can be added."), args.yes)?;
    let events = tidelock.erase_subject(subject).await?;
    if out.is_json() {
        return Ok(out.json(&Done { done: "erased", events })?);
    }
    let of =
        format!("the personal data of subject {subject:?} in {}", many(events as u64, "event"));
    Ok(out.line(Style::Plain, &format!("erased: {of}"))?)
}
