//! `tidelock export`: writes everything in a store as JSON lines.

use std::fs::{self, File, FileType, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tidelock::store::Store;

use super::Cx;
use crate::args::ExportArgs;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::transfer::{Totals, export};

pub(crate) async fn run(args: ExportArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    check_free(&args)?;
    let store = store_url.open().await?.store;
    let progress = Progress::counting("events");
    let (totals, settled) = match args.file.as_os_str() == "-" {
        true => to_stdout(&store, &progress).await?,
        false => to_file(&store, &args, &progress).await?,
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

/// Refuses an existing path; with `--overwrite`, everything but a regular file. A link is not
/// followed: its target was not named.
fn check_free(args: &ExportArgs) -> Result<()> {
    if args.file.as_os_str() == "-" {
        return Ok(());
    }
    let path = args.file.display().to_string();
    match fs::symlink_metadata(&args.file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::file("write", &path, &error)),
        Ok(there) if !there.is_file() => Err(Failure::refused(
            format!("{path:?} is {}, not a file", called(there.file_type())),
            "another name",
        )),
        Ok(_) if args.overwrite => Ok(()),
        Ok(_) => Err(Failure::refused(
            format!("{path:?} already exists"),
            "another name, or --overwrite",
        )),
    }
}

fn called(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a link",
        kind if kind.is_dir() => "a folder",
        _ => "a pipe, a socket or a device",
    }
}

async fn to_stdout(store: &Arc<dyn Store>, progress: &Progress) -> Result<(Totals, bool)> {
    let exported = export(store, BufWriter::new(io::stdout()), progress).await?;
    Ok((exported.totals, exported.settled))
}

/// Writes to a temporary file and renames it at the end: the named file is always complete.
async fn to_file(
    store: &Arc<dyn Store>,
    args: &ExportArgs,
    progress: &Progress,
) -> Result<(Totals, bool)> {
    let failed = |e: io::Error| Failure::file("write", &args.file.to_string_lossy(), &e);
    let (partial, path) = beside(&args.file).map_err(failed)?.into_parts();
    let filled = fill(store, partial, progress).await.map_err(|failure| match failure {
        Failure::Io(e) => failed(e),
        other => other,
    })?;
    // The path may have changed during the export.
    check_free(args)?;
    match args.overwrite {
        true => path.persist(&args.file),
        false => path.persist_noclobber(&args.file),
    }
    .map_err(|e| failed(e.error))?;
    Ok(filled)
}

async fn fill(store: &Arc<dyn Store>, file: File, progress: &Progress) -> Result<(Totals, bool)> {
    let mut exported = export(store, BufWriter::with_capacity(1 << 20, file), progress).await?;
    exported.to.flush()?;
    exported.to.get_ref().sync_all()?;
    Ok((exported.totals, exported.settled))
}

/// A new file in the same folder, removed unless it replaces the named one.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    let builder = &mut tempfile::Builder::new();
    // The usual permissions of a new file, according to the umask.
    builder.permissions(Permissions::from_mode(0o666));
    builder.prefix(&name).suffix(".partial").tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMD-9. Devices are never opened; nothing is written here.
    #[test]
    fn a_device_is_not_a_file() {
        let args = ExportArgs { file: "/dev/null".into(), overwrite: true };
        let refused = check_free(&args).unwrap_err();
        assert!(refused.to_string().contains("a pipe, a socket or a device"), "{refused}");
    }
}
