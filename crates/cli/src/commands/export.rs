//! `tidelock export`: writes everything in a store as JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use tidelock::store::Store;

use super::{Cx, new_file};
use crate::args::ExportArgs;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::store_url::StoreUrl;
use crate::transfer::{Totals, export};

pub(crate) async fn run(args: ExportArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    check_free(&args, store_url)?;
    let store = store_url.open().await?.store;
    let progress = Progress::counting("events");
    let (totals, settled) = match args.file.as_os_str() == "-" {
        true => to_stdout(&store, &progress).await?,
        false => to_file(&store, store_url, &args, &progress).await?,
    };
    drop(progress);
    let Totals { events, records, items } = totals;
    if out.is_json() && args.file.as_os_str() != "-" {
        out.json(&totals)?;
    }
    out.note(&format!(
        "exported {events} events, {records} records and {items} work items of {}",
        store_url.shown()
    ))?;
    if settled {
        return Ok(());
    }
    Err(Failure::failed(
        "the store was in use while it was exported: the export is not a consistent snapshot",
        "the same command while nothing writes to the store, nor has a transaction open; tidelock doctor names one",
    ))
}

async fn to_stdout(store: &Arc<dyn Store>, progress: &Progress) -> Result<(Totals, bool)> {
    let exported = export(store, BufWriter::new(io::stdout()), progress).await?;
    Ok((exported.totals, exported.settled))
}

/// Writes to a temporary file and renames it at the end: the named file is always complete.
async fn to_file(
    store: &Arc<dyn Store>,
    store_url: &StoreUrl,
    args: &ExportArgs,
    progress: &Progress,
) -> Result<(Totals, bool)> {
    let failed = |e: io::Error| Failure::file("write", &args.file.to_string_lossy(), &e);
    let (partial, path) = new_file::beside(&args.file).map_err(failed)?.into_parts();
    let filled = fill(store, partial, progress).await.map_err(|failure| match failure {
        Failure::Io(e) => failed(e),
        other => other,
    })?;
    // The path may have changed during the export.
    check_free(args, store_url)?;
    new_file::put_in_place(path, &args.file, args.overwrite).map_err(failed)?;
    Ok(filled)
}

async fn fill(store: &Arc<dyn Store>, file: File, progress: &Progress) -> Result<(Totals, bool)> {
    let mut exported = export(store, BufWriter::with_capacity(1 << 20, file), progress).await?;
    exported.to.flush()?;
    exported.to.get_ref().sync_all()?;
    Ok((exported.totals, exported.settled))
}

fn check_free(args: &ExportArgs, store: &StoreUrl) -> Result<()> {
    match args.file.as_os_str() == "-" {
        true => Ok(()),
        false => new_file::check_free(&args.file, store, args.overwrite),
    }
}
