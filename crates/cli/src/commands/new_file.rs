//! A file that a command writes: never over another one unasked, and complete or not there.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

use super::target_file;
use crate::failure::{Failure, Result};
use crate::store_url::StoreUrl;

/// Refuses an existing path; to overwrite it, everything but a regular file that is none of the
/// store's own.
pub(crate) fn check_free(file: &Path, store: &StoreUrl, overwrite: bool) -> Result<()> {
    if !target_file::check(file, store)? || overwrite {
        return Ok(());
    }
    Err(Failure::refused(
        format!("{:?} already exists", file.display().to_string()),
        "another name, or --overwrite",
    ))
}

/// A new file in the same folder, removed unless it replaces the named one.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    let builder = &mut tempfile::Builder::new();
    // The usual permissions of a new file, according to the umask.
    builder.permissions(Permissions::from_mode(0o666));
    builder.prefix(&name).suffix(".partial").tempfile_in(folder)
}

/// Gives the complete file its name.
pub(crate) fn put_in_place(partial: TempPath, file: &Path, overwrite: bool) -> io::Result<()> {
    match overwrite {
        true => partial.persist(file),
        false => partial.persist_noclobber(file),
    }
    .map_err(|e| e.error)
}
