//! A file that a command is told to write: a regular file, and none of the store's own.

use std::fs::{self, FileType};
use std::io;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::store_url::StoreUrl;

/// Checks a path that is to be written, and returns whether there is a file. A link is not
/// followed: its target was not named.
pub(crate) fn check(path: &Path, store: &StoreUrl) -> Result<bool> {
    let named = path.display().to_string();
    if store.owns(path) {
        return Err(Failure::refused(
            format!("{named:?} is a file of the store {:?} itself", store.shown()),
            "another name",
        ));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::file("write", &named, &error)),
        Ok(there) if !there.is_file() => Err(Failure::refused(
            format!("{named:?} is {}, not a file", called(there.file_type())),
            "another name",
        )),
        Ok(_) => Ok(true),
    }
}

fn called(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a link",
        kind if kind.is_dir() => "a folder",
        _ => "a pipe, a socket or a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMD-9. Devices are never opened; nothing is written here.
    #[test]
    fn a_device_is_not_a_file() {
        let store = StoreUrl::meant(Some("sqlite:a.db".into()));
        let refused = check(Path::new("/dev/null"), &store).unwrap_err();
        assert!(refused.to_string().contains("a pipe, a socket or a device"), "{refused}");
    }
}
