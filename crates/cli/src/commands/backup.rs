//! `tidelock backup`: copies an SQLite store that is in use to a new file, and verifies the copy.

use super::Cx;
use crate::args::BackupArgs;
use crate::failure::{Failure, Result};
use crate::store_url::StoreUrl;

/// A program that was built without SQLite has no file to copy.
#[cfg(not(feature = "sqlite"))]
pub(crate) async fn run(_: BackupArgs, Cx { store_url, .. }: Cx<'_>) -> Result<()> {
    store_url.open().await?;
    Err(no_file(store_url))
}

#[cfg(feature = "sqlite")]
pub(crate) async fn run(args: BackupArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    use tidelock::sqlite::{SqliteOptions, SqliteStore};

    let Some(from) = store_url.file()? else { return Err(no_file(store_url)) };
    if super::target_file::check(&args.file, store_url)? {
        let what = format!("{:?} already exists", args.file.display().to_string());
        return Err(Failure::refused(what, "another name: a backup overwrites nothing"));
    }
    let copy = move || SqliteStore::back_up_file(from, args.file, &SqliteOptions::default());
    let backup = tokio::task::spawn_blocking(copy).await.map_err(std::io::Error::other)?;
    let backup = backup.map_err(|error| made::failed(error, store_url))?;
    made::tell(&backup, store_url, out)
}

fn no_file(store_url: &StoreUrl) -> Failure {
    Failure::refused(
        format!("{:?} is no SQLite file", store_url.shown()),
        "pg_dump, pg_basebackup or a WAL archive, with which PostgreSQL backs up a database in use",
    )
}

#[cfg(feature = "sqlite")]
mod made {
    use std::error::Error;

    use serde::Serialize;
    use tidelock::sqlite::Backup;
    use tidelock::store::{Position, StoreError, StoreErrorKind};

    use crate::failure::{Failure, Result};
    use crate::output::{Output, Style, many};
    use crate::store_url::StoreUrl;

    /// What the copy contains, as JSON.
    #[derive(Debug, Serialize)]
    struct Made {
        file: String,
        bytes: u64,
        schema: usize,
        streams: u64,
        events: u64,
        records: u64,
        items: u64,
        last_position: Position,
    }

    pub(super) fn tell(backup: &Backup, store_url: &StoreUrl, out: &mut Output) -> Result<()> {
        let &Backup { bytes, schema, streams, events, records, items, last_position, .. } = backup;
        let file = backup.path.display().to_string();
        if out.is_json() {
            let made = Made { file, bytes, schema, streams, events, records, items, last_position };
            return Ok(out.json(&made)?);
        }
        let [events, records, items] =
            [(events, "event"), (records, "record"), (items, "work item")]
                .map(|(count, noun)| many(count, noun));
        let whole = format!("{events}, {records} and {items} of {}", store_url.shown());
        Ok(out.line(Style::Plain, &format!("{file} has {whole}, and was verified"))?)
    }

    pub(super) fn failed(error: StoreError, store_url: &StoreUrl) -> Failure {
        let what = format!("no backup of {:?}: {}", store_url.shown(), error.context());
        match error.kind() {
            StoreErrorKind::Invalid => Failure::refused(what, "another path"),
            StoreErrorKind::Full | StoreErrorKind::Storage => {
                let why = error.source().map(|why| format!(" ({why})")).unwrap_or_default();
                Failure::failed(format!("{what}{why}"), "another path, or room on this disk")
            }
            _ => Failure::Store { what, source: error },
        }
    }
}
