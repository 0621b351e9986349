//! `tidelock export`: everything in a store, as lines of JSON.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidelock::Store;

use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;
use crate::progress::Progress;
use crate::transfer::{Totals, export};

pub(crate) async fn run(args: ExportArgs, place: &Place, out: &mut Output) -> Result<(), Failure> {
    check_free(&args)?;
    let store = place.open().await?.store;
    let progress = Progress::counting("events");
    let (totals, settled) = match args.file.as_os_str() == "-" {
        true => to_stdout(&store, &progress).await?,
        false => to_file(&store, &args.file, &progress).await?,
    };
    drop(progress);
    let Totals { events, records, items } = totals;
    if out.is_json() && args.file.as_os_str() != "-" {
        out.json(&totals)?;
    }
    out.note(&format!(
        "exported {events} events, {records} records and {items} work items of {}",
        place.shown()
    ))?;
    if settled {
        return Ok(());
    }
    Err(Failure::failed(
        "the store was in use while it was exported: not everything in the export was there at one moment",
        "the same command while nothing writes to the store, nor has a transaction open; tidelock doctor names one",
    ))
}

fn check_free(args: &ExportArgs) -> Result<(), Failure> {
    if args.overwrite || args.file.as_os_str() == "-" || !args.file.exists() {
        return Ok(());
    }
    Err(Failure::refused(
        format!("{:?} is there already", args.file.display()),
        "another name, or --overwrite",
    ))
}

async fn to_stdout(store: &Arc<dyn Store>, progress: &Progress) -> Result<(Totals, bool), Failure> {
    let exported = export(store, BufWriter::new(io::stdout()), progress).await?;
    Ok((exported.totals, exported.settled))
}

/// Writes beside the file and renames at the end: a file of that name is always whole.
async fn to_file(
    store: &Arc<dyn Store>,
    path: &Path,
    progress: &Progress,
) -> Result<(Totals, bool), Failure> {
    let partial = beside(path);
    let failed = |e: io::Error| Failure::file("write", &partial.to_string_lossy(), &e);
    let file = File::create(&partial).map_err(failed)?;
    let filled = fill(store, file, progress).await.map_err(|failure| match failure {
        Failure::Io(e) => failed(e),
        other => other,
    });
    let filled = filled.inspect_err(|_| drop(fs::remove_file(&partial)))?;
    fs::rename(&partial, path).map_err(failed)?;
    Ok(filled)
}

async fn fill(store: &Arc<dyn Store>, file: File, progress: &Progress) -> Result<(Totals, bool), Failure> {
    let mut exported = export(store, BufWriter::with_capacity(1 << 20, file), progress).await?;
    exported.to.flush()?;
    exported.to.get_ref().sync_all()?;
    Ok((exported.totals, exported.settled))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}
