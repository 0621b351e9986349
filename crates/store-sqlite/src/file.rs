//! File identity: where the file is, whether it is still the one that was opened, and whether this
//! is still the process that opened it.
//!
//! SQLite keeps writing to a file that was deleted or replaced, and every such commit is lost. Its
//! locks do not work on network file systems, and not across a fork. None of this raises an error
//! by itself.

use std::path::{Path, PathBuf};

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

/// The file that a store has open.
#[derive(Debug)]
pub(crate) struct StoreFile {
    /// Absolute and without links: SQLite keeps the log beside the real file.
    path: PathBuf,
    /// The database file, its log and the log's index, each as it was when it was opened. SQLite
    /// never replaces them while the file is open, so a different file was put there by something
    /// else.
    parts: [Part; 3],
    lasting_identity: String,
    process: u32,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    identity: (u64, u64),
}

impl StoreFile {
    /// Records the identity of the file that was just opened.
    pub(crate) fn opened(path: &Path) -> Result<Self> {
        let vanished = || unavailable("the file vanished while it was opened".to_owned());
        let path = path.canonicalize().map_err(|e| vanished().caused_by(e))?;
        let part = |suffix| {
            let mut part = path.clone().into_os_string();
            part.push(suffix);
            let identity = identity(Path::new(&part)).ok_or_else(vanished)?;
            Ok(Part { path: part.into(), identity })
        };
        let parts = [part("")?, part("-wal")?, part("-shm")?];
        let lasting_identity = lasting_identity(&path).ok_or_else(vanished)?;
        Ok(Self { path, parts, lasting_identity, process: std::process::id() })
    }

    /// Refuses to continue when commits would be lost. Called inside each transaction.
    pub(crate) fn is_still_there(&self) -> Result<()> {
        for part in &self.parts {
            let lost = match identity(&part.path) {
                Some(found) if found == part.identity => continue,
                Some(_) => "was replaced by another one",
                None => "was deleted or moved",
            };
            return Err(unavailable(format!(
                "the file {} {lost} while it was open, so nothing can be written any more: open the store again",
                part.path.display()
            )));
        }
        Ok(())
    }

    /// Refuses to continue in a child process: the threads and locks of the store stayed with its
    /// parent.
    pub(crate) fn is_not_forked(&self, operation: StoreOperation) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(unavailable(format!(
            "the file {} was opened in process {}, which this one was forked from: open the store again here",
            self.path.display(),
            self.process
        ))
        .during(operation))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this file among all that ever existed. A copy has another one, and so has a
    /// file that was put in its place.
    pub(crate) fn lasting_identity(&self) -> &str {
        &self.lasting_identity
    }
}

/// The file's identity, independent of its name.
///
/// Requests no other attribute: since Linux 6.13, reading a file's times makes its next write
/// record them to the nanosecond, and then every flush of the log must also write the inode, which
/// makes it a third slower.
#[cfg(target_os = "linux")]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO).ok()?;
    Some((u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor), found.stx_ino))
}

#[cfg(not(target_os = "linux"))]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The file's device, its inode number, and when it was created: inode numbers are reused after a
/// deletion.
///
/// Only that time is requested, and only when a file is opened; see [`identity`].
#[cfg(target_os = "linux")]
fn lasting_identity(path: &Path) -> Option<String> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME).ok()?;
    let (major, minor, number) = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
    let made = match found.stx_mask & StatxFlags::BTIME.bits() {
        0 => "?".to_owned(),
        _ => format!("{}.{:09}", found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
    };
    Some(format!("{major}:{minor}/{number}/{made}"))
}

#[cfg(not(target_os = "linux"))]
fn lasting_identity(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    use std::time::UNIX_EPOCH;
    let found = std::fs::metadata(path).ok()?;
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or("?".to_owned(), |made| made.as_nanos().to_string());
    Some(format!("{}/{}/{made}", found.dev(), found.ino()))
}

fn unavailable(context: String) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Never,
        StoreOperation::Commit,
        context,
    )
}

/// Refuses a location where a file cannot be used safely. The caller adds the path.
pub(crate) fn check_place(path: &Path) -> Result<()> {
    check_name(path)?;
    match file_system(&folder(path)).and_then(network_name) {
        Some(name) => Err(StoreError::invalid(format!(
            "this is on a network file system ({name}), where SQLite's locks do not hold: use a local disk"
        ))),
        None => Ok(()),
    }
}

/// Refuses a path where no file can be. The caller adds the path.
pub(crate) fn check_name(path: &Path) -> Result<()> {
    let refuse = |context| Err(StoreError::invalid(context));
    let name = path.as_os_str().as_encoded_bytes();
    if name.contains(&0) {
        return refuse("a path cannot have a NUL in it".to_owned());
    }
    if name.starts_with(b"file:") {
        return refuse("this looks like SQLite's own kind of URL: give the path alone".to_owned());
    }
    if path.is_dir() || name.ends_with(b"/") {
        return refuse("this is a folder: name a file in it".to_owned());
    }
    let folder = folder(path);
    if !folder.is_dir() {
        return refuse(format!("the folder {} does not exist: create it first", folder.display()));
    }
    Ok(())
}

/// The folder of the file, not that of a link to it: that one counts.
fn folder(path: &Path) -> PathBuf {
    let real = path.canonicalize();
    match real.as_deref().unwrap_or(path).parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The kernel's number for the kind of file system.
#[cfg(target_os = "linux")]
fn file_system(folder: &Path) -> Option<i64> {
    Some(rustix::fs::statfs(folder).ok()?.f_type)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> Option<i64> {
    None
}

fn network_name(kind: i64) -> Option<&'static str> {
    // The numbers of linux/magic.h; only 32 bits of them count.
    match kind & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9P"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x7461_636f => Some("OCFS2"),
        0x0116_1970 => Some("GFS2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_place_where_no_file_can_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_place(folder.path()).unwrap_err().to_string().contains("is a folder"));
        let missing = folder.path().join("missing/shop.db");
        assert!(check_place(&missing).unwrap_err().to_string().contains("does not exist"));
        assert!(
            check_place(Path::new("file:shop.db")).unwrap_err().to_string().contains("path alone")
        );
        check_place(&folder.path().join("shop.db")).unwrap();
    }

    #[test]
    fn a_file_that_was_replaced_or_deleted_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        fs::write(&path, "one").unwrap();
        fs::write(folder.path().join("shop.db-wal"), "").unwrap();
        fs::write(folder.path().join("shop.db-shm"), "").unwrap();
        let file = StoreFile::opened(&path).unwrap();
        file.is_still_there().unwrap();
        fs::write(folder.path().join("other.db"), "two").unwrap();
        fs::rename(folder.path().join("other.db"), &path).unwrap();
        assert!(file.is_still_there().unwrap_err().to_string().contains("was replaced"));
        fs::remove_file(&path).unwrap();
        assert!(file.is_still_there().unwrap_err().to_string().contains("was deleted"));
    }
}
