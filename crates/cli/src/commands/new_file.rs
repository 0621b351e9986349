//! A file that a command writes: never over another one unasked, and complete or not there.

use std::fs::{self, FileType, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

use crate::failure::{Failure, Result};

/// Refuses an existing path; to overwrite it, everything but a regular file. A link is not
/// followed: its target was not named.
pub(crate) fn check_free(file: &Path, overwrite: bool) -> Result<()> {
    let path = file.display().to_string();
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::file("write", &path, &error)),
        Ok(there) if !there.is_file() => Err(Failure::refused(
            format!("{path:?} is {}, not a file", called(there.file_type())),
            "another name",
        )),
        Ok(_) if overwrite => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// CMD-9. Devices are never opened; nothing is written here.
    #[test]
    fn a_device_is_not_a_file() {
        let refused = check_free(Path::new("/dev/null"), true).unwrap_err();
        assert!(refused.to_string().contains("a pipe, a socket or a device"), "{refused}");
    }
}
