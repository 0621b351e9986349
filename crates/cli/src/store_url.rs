//! The store that a command uses, and how it is opened.
//!
//! A command that only reads creates nothing and changes no table: a missing file is reported, and
//! a file that is not Tidelock's is left as it is. Messages never contain the password of a URL.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidelock::doctor::Doctor;
#[cfg(feature = "postgres")]
use tidelock::postgres::PostgresStore;
use tidelock::store::{Store, StoreError, StoreErrorKind, StoreOperation};

use crate::Layer;
use crate::failure::{Failure, Result};

/// The default.
const DEFAULT: &str = "sqlite:tidelock.db";
/// A store that ends with its process.
const MEMORY: &str = "memory:";
/// Where many programs and platforms name their database.
const DATABASE_URL: &str = "DATABASE_URL";
/// How stores refuse to be opened without a migration.
const NOT_MIGRATED: &str = ", and migrate=0 was asked for";

/// A program that was built without PostgreSQL never has one open.
#[cfg(not(feature = "postgres"))]
type PostgresStore = std::convert::Infallible;

/// The URL of a store.
#[derive(Clone)]
pub(crate) struct StoreUrl {
    url: String,
    /// Whether it was found in `DATABASE_URL`.
    is_found: bool,
    layer: Layer,
}

/// A store that is open.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// The PostgreSQL store, if it is one, for its own features.
    pub(crate) postgres: Option<PostgresStore>,
}

impl StoreUrl {
    /// The store of the arguments, else the one in `DATABASE_URL`, else a file in this folder.
    pub(crate) fn meant(named: Option<String>) -> Self {
        let found = || std::env::var(DATABASE_URL).ok().filter(|url| !url.is_empty());
        let found = if named.is_none() { found() } else { None };
        let is_found = found.is_some();
        let url = named.or(found).unwrap_or_else(|| DEFAULT.to_owned());
        Self { url, is_found, layer: |store| store }
    }

    /// Adds a decorator in front of the store.
    pub(crate) fn behind(self, layer: Layer) -> Self {
        Self { layer, ..self }
    }

    /// Opens the store without creating it.
    pub(crate) async fn open(&self) -> Result<OpenedStore> {
        self.check_is_there()?;
        self.open_at(&self.url_without_migrating()).await
    }

    /// Opens the store, and creates it if it does not exist.
    pub(crate) async fn make(&self) -> Result<OpenedStore> {
        self.check_outlives_the_process()?;
        self.open_at(&self.url).await
    }

    /// Opens the store for a server, which creates it only if requested. A memory store lives as
    /// long as the server, and is always created.
    pub(crate) async fn serve(&self, migrate: bool) -> Result<OpenedStore> {
        if migrate || self.url == MEMORY {
            return self.open_at(&self.url).await;
        }
        self.open().await.map_err(|failure| match failure {
            Failure::NoStore { what, .. } => Failure::no_store(
                what,
                "--migrate, to create it or bring it up to date; or another --store URL",
            ),
            other => other,
        })
    }

    /// Opens it for the first time after it was restored from a backup.
    pub(crate) async fn open_restored(&self) -> Result<OpenedStore> {
        self.check_is_there()?;
        match is_postgres(&self.url) {
            true => self.open_at(&self.url).await,
            false => self.open_at(&self.url_with("restored=1")).await,
        }
    }

    /// The file of an SQLite store that exists; none if it is another kind of store.
    #[cfg(feature = "sqlite")]
    pub(crate) fn file(&self) -> Result<Option<PathBuf>> {
        let checked = tidelock::check_url(&self.url).map_err(|error| self.not_opened(error));
        checked.and_then(|()| self.check_is_there())?;
        Ok(self.path().map(PathBuf::from))
    }

    /// The redacted URL.
    pub(crate) fn shown(&self) -> String {
        tidelock::redacted_url(&self.url)
    }

    /// Whether it is a file that does not exist yet.
    pub(crate) fn is_missing(&self) -> bool {
        self.path().is_some_and(|path| !path.is_empty() && !Path::new(path).exists())
    }

    /// Whether a path is the file of the store, or one that SQLite keeps beside it.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        let Some(file) = self.path().filter(|file| !file.is_empty()) else { return false };
        let own = ["", "-wal", "-shm", "-journal"].map(|end| PathBuf::from(format!("{file}{end}")));
        own.iter().any(|own| is_same(own, path))
    }

    /// The schema version that this program knows for it.
    pub(crate) fn schema_version(&self) -> usize {
        match is_postgres(&self.url) {
            #[cfg(feature = "postgres")]
            true => tidelock::postgres::SCHEMA_VERSION,
            #[cfg(feature = "sqlite")]
            false => tidelock::sqlite::SCHEMA_VERSION,
            // A store that this program was built without is refused before its tables matter.
            #[cfg(not(all(feature = "postgres", feature = "sqlite")))]
            _ => 0,
        }
    }

    async fn open_at(&self, url: &str) -> Result<OpenedStore> {
        let opened = match is_postgres(url) {
            #[cfg(feature = "postgres")]
            true => PostgresStore::open(url).await.map(|postgres| OpenedStore {
                store: Arc::new(postgres.clone()),
                postgres: Some(postgres),
            }),
            _ => tidelock::open(url).await.map(|store| OpenedStore { store, postgres: None }),
        };
        let opened = opened.map_err(|error| self.not_opened(error))?;
        Ok(OpenedStore { store: (self.layer)(opened.store), ..opened })
    }

    /// The error for a store that cannot be opened.
    pub(crate) fn not_opened(&self, source: StoreError) -> Failure {
        let context = source.context();
        let is_old =
            source.kind() == StoreErrorKind::Incompatible && context.contains(NOT_MIGRATED);
        // The command requested migrate=0, not the user.
        let why = context.split_once(NOT_MIGRATED).map_or(context, |(why, _)| why);
        let what = format!("cannot open store {:?}: {why}", self.shown());
        // A URL of something that does not exist makes sense.
        let is_meaningless = tidelock::check_url(&self.url).is_err();
        match source.kind() {
            StoreErrorKind::Invalid if is_meaningless => Failure::usage(what, self.hint_on_url()),
            _ if is_old => Failure::no_store(
                what,
                "tidelock migrate, which creates a store or brings it up to date",
            ),
            _ => Failure::Store { what, source: source.during(StoreOperation::Open) },
        }
    }

    fn hint_on_url(&self) -> String {
        match self.url.split_once(':') {
            _ if self.is_found => {
                format!("that is {DATABASE_URL}; --store URL or TIDELOCK_STORE comes before it")
            }
            Some(("memory" | "sqlite" | "postgres" | "postgresql", _)) => {
                "fix that, or name another store with --store URL".to_owned()
            }
            None if !self.url.is_empty() && !self.url.contains('=') => {
                format!("--store sqlite:{}, if a file is meant", self.url)
            }
            _ => "give sqlite:PATH or postgres://USER@HOST/DATABASE".to_owned(),
        }
    }

    fn check_is_there(&self) -> Result<()> {
        self.check_outlives_the_process()?;
        match self.path().filter(|_| self.is_missing()) {
            Some(path) => Err(Failure::no_store(
                format!("there is no store at {:?}: no file {path:?}", self.shown()),
                "--store URL or TIDELOCK_STORE to name another; tidelock migrate creates a new one here",
            )),
            None => Ok(()),
        }
    }

    fn check_outlives_the_process(&self) -> Result<()> {
        if self.url != MEMORY {
            return Ok(());
        }
        Err(Failure::usage(
            "memory: is a store inside one process: for a command it is always empty",
            "--store sqlite:PATH or --store postgres://USER@HOST/DATABASE",
        ))
    }

    /// The file of an embedded store.
    fn path(&self) -> Option<&str> {
        let rest = self.url.strip_prefix("sqlite:")?;
        let path = rest.split_once('?').map_or(rest, |(path, _)| path);
        Some(path.strip_prefix("//").unwrap_or(path))
    }

    fn url_without_migrating(&self) -> String {
        if !self.url.contains(':') {
            // Not a URL: it is refused as it was typed.
            return self.url.clone();
        }
        let asked = self.url.split_once('?').map_or("", |(_, query)| query);
        let says = asked.split('&').any(|option| option.starts_with("migrate="));
        if says { self.url.clone() } else { self.url_with("migrate=0") }
    }

    /// Adds an option to the URL.
    fn url_with(&self, option: &str) -> String {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{mark}{option}", self.url)
    }
}

/// Adds to the doctor of a store what only PostgreSQL can tell.
pub(crate) fn with_postgres(doctor: Doctor, postgres: Option<PostgresStore>) -> Doctor {
    #[cfg(feature = "postgres")]
    return postgres.into_iter().fold(doctor, Doctor::with_postgres);
    #[cfg(not(feature = "postgres"))]
    return postgres.map_or(doctor, |never| match never {});
}

/// Whether two paths are one file, or will be when they are created.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    place(one).is_some_and(|one| Some(one) == place(other))
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> StoreUrl {
        StoreUrl { url: url.to_owned(), is_found: false, layer: |store| store }
    }

    #[test]
    fn looking_never_migrates_unless_the_url_says_so() {
        assert_eq!(place("sqlite:a.db").url_without_migrating(), "sqlite:a.db?migrate=0");
        assert_eq!(
            place("postgres://h/d?schema=s").url_without_migrating(),
            "postgres://h/d?schema=s&migrate=0"
        );
        assert_eq!(
            place("postgres://h/d?migrate=1").url_without_migrating(),
            "postgres://h/d?migrate=1"
        );
        assert_eq!(place("shop.db").url_without_migrating(), "shop.db");
        assert_eq!(place("sqlite:a.db?").url_without_migrating(), "sqlite:a.db?&migrate=0");
    }

    #[test]
    fn the_path_of_a_file_is_found_in_every_spelling() {
        assert_eq!(place("sqlite:a.db?readers=3").path(), Some("a.db"));
        assert_eq!(place("sqlite:///tmp/a.db").path(), Some("/tmp/a.db"));
        assert_eq!(place("postgres://h/d").path(), None);
    }
}
