//! Online backup: a consistent copy of a file that is in use, verified before it gets its name.
//!
//! `VACUUM INTO` copies one snapshot: in WAL mode writers go on meanwhile, and unlike a copy page
//! by page it never has to begin again because another process wrote. Free pages are left out, so
//! what was removed from the store before is not in the copy.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tidelock_store::{
    CommitId, Position, Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation,
};

use crate::error::failed;
use crate::open::SqliteOptions;
use crate::{file, migrate};

/// What a backup contains, counted in the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The copy.
    pub path: PathBuf,
    /// The size of the copy.
    pub bytes: u64,
    /// The number of migrations of the copy.
    pub schema: usize,
    /// Streams that have a row.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Records, not counting deleted ones.
    pub records: u64,
    /// Work items.
    pub items: u64,
    /// The position of the newest event that the copy knows of.
    pub last_position: Position,
}

/// Copies the store in a file to a new file, which has its name only once it is complete, verified
/// and durable.
pub(crate) fn back_up(from: &Path, to: &Path, options: &SqliteOptions) -> Result<Backup> {
    file::check_name(to).and_then(|()| check_free(to)).map_err(|e| e.about(to.display()))?;
    let source = open_source(from, options)?;
    let (schema, before) = (migrate::applied_some(&source)?, last_position(&source)?);
    let partial = Partial::create(from, to)?;
    source.execute("VACUUM INTO ?1", [partial.name()?]).map_err(failed)?;
    let copied = verify(&partial.path, schema)?;
    if !(before..=last_position(&source)?).contains(&copied.last_position) {
        return Err(damaged(&format!(
            "it ends at position {}, and the store was at {before} when it was begun",
            copied.last_position
        )));
    }
    partial.put_in_place(to)?;
    Ok(Backup { path: to.to_owned(), ..copied })
}

/// A connection that can read the file whatever version its tables have. It is not marked as one
/// for queries only, as `VACUUM INTO` counts as a write.
fn open_source(from: &Path, options: &SqliteOptions) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(failed)?;
    source.busy_timeout(options.busy_timeout).map_err(failed)?;
    Ok(source)
}

/// Refuses a path where something is, or beside which the log of another file would be taken for
/// that of the copy.
fn check_free(to: &Path) -> Result<()> {
    for (end, is) in [("", "it"), ("-wal", "a log beside it"), ("-journal", "a journal beside it")]
    {
        let mut path = to.as_os_str().to_owned();
        path.push(end);
        if fs::symlink_metadata(path).is_ok() {
            let context = format!("{is} already exists: a backup overwrites nothing");
            return Err(StoreError::invalid(context));
        }
    }
    Ok(())
}

/// The copy before it is complete: removed unless it is put in its place.
struct Partial {
    path: PathBuf,
}

impl Partial {
    /// An empty file beside the target, with the permissions of the store's file.
    fn create(from: &Path, to: &Path) -> Result<Self> {
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{}.partial", CommitId::fresh()));
        let path = PathBuf::from(name);
        let created = OpenOptions::new().write(true).create_new(true).open(&path);
        created.map_err(|e| not_written(to, e))?;
        let partial = Self { path };
        let permissions = fs::metadata(from).map(|metadata| metadata.permissions());
        permissions
            .and_then(|permissions| fs::set_permissions(&partial.path, permissions))
            .map_err(|e| not_written(to, e))?;
        Ok(partial)
    }

    fn name(&self) -> Result<&str> {
        let not_text = || StoreError::invalid("SQLite takes no path that is not UTF-8");
        self.path.to_str().ok_or_else(not_text)
    }

    /// Makes the copy durable and gives it its name, unless something got that name meanwhile.
    fn put_in_place(self, to: &Path) -> Result<()> {
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let placed = File::open(&self.path)
            .and_then(|copy| copy.sync_all())
            .and_then(|()| fs::hard_link(&self.path, to))
            .and_then(|()| File::open(folder.unwrap_or(Path::new("."))))
            .and_then(|folder| folder.sync_all());
        placed.map_err(|e| not_written(to, e))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Its name says what it is, should it stay. SQLite leaves the journal on a full disk.
        for end in ["", "-journal"] {
            let mut path = self.path.as_os_str().to_owned();
            path.push(end);
            let _ = fs::remove_file(path);
        }
    }
}

/// Opens the copy, and checks that it is whole and a store of this schema.
fn verify(path: &Path, schema: usize) -> Result<Backup> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(path, flags).map_err(failed)?;
    let found: String =
        copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found != "ok" {
        return Err(damaged(&format!("SQLite finds: {found}")));
    }
    let copied = migrate::applied_some(&copy)?;
    if copied != schema {
        return Err(damaged(&format!("it has {copied} migrations, and the store {schema}")));
    }
    let count = |sql: &str| {
        let counted = copy.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed)?;
        Ok(u64::try_from(counted).unwrap_or_default())
    };
    Ok(Backup {
        path: path.to_owned(),
        bytes: fs::metadata(path).map_err(|e| not_written(path, e))?.len(),
        schema,
        streams: count("SELECT count(*) FROM tidelock_streams")?,
        events: count("SELECT count(*) FROM tidelock_events")?,
        records: count("SELECT count(*) FROM tidelock_records WHERE value IS NOT NULL")?,
        items: count("SELECT count(*) FROM tidelock_items")?,
        last_position: last_position(&copy)?,
    })
}

/// The position of the newest event, kept or trimmed.
fn last_position(connection: &Connection) -> Result<Position> {
    let sql = "SELECT max(position_floor, (SELECT coalesce(max(position), 0) FROM tidelock_events))
               FROM tidelock_meta";
    let last: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    Position::new(u64::try_from(last).unwrap_or_default())
}

fn damaged(context: &str) -> StoreError {
    let context = format!("the copy is not the store, and was removed: {context}");
    StoreError::new(StoreErrorKind::Corrupt, RetryAdvice::Later, StoreOperation::Open, context)
}

fn not_written(to: &Path, error: io::Error) -> StoreError {
    let (kind, context) = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            return StoreError::invalid("it already exists: a backup overwrites nothing")
                .about(to.display());
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (StoreErrorKind::Full, "no room is left on the disk, make some")
        }
        _ => (StoreErrorKind::Storage, "the copy cannot be written there"),
    };
    StoreError::new(kind, RetryAdvice::Later, StoreOperation::Open, context)
        .about(to.display())
        .caused_by(error)
}
