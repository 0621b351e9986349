//! Which store is meant, and how it is opened.
//!
//! A command that only looks makes nothing and changes no table: a file that is not there is said
//! to be missing, and one that is not Tidelock's is left as it is. What is told of a URL never has
//! a password in it.

use std::path::Path;
use std::sync::Arc;

use tidelock::postgres::PostgresStore;
use tidelock::{Store, StoreError, StoreErrorKind, StoreOperation};

use crate::Layer;
use crate::failure::Failure;

/// What is meant when nothing is said.
const DEFAULT: &str = "sqlite:tidelock.db";
/// A store that is gone with its process.
const MEMORY: &str = "memory:";
/// Where it can be said once for all commands.
const VARIABLE: &str = "TIDELOCK_STORE";
/// With what stores refuse to be opened as they are.
const NOT_MIGRATED: &str = ", and migrate=0 was asked for";

/// The URL of a store.
#[derive(Clone)]
pub(crate) struct StoreUrl {
    url: String,
    layer: Layer,
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// The same, if it is one of these, for what only they can tell.
    pub(crate) postgres: Option<PostgresStore>,
}

impl StoreUrl {
    /// What the command line names, else the environment, else a file in this folder.
    pub(crate) fn meant(named: Option<String>) -> Self {
        let from_environment = || std::env::var(VARIABLE).ok().filter(|url| !url.is_empty());
        let url = named.or_else(from_environment).unwrap_or_else(|| DEFAULT.to_owned());
        Self { url, layer: |store| store }
    }

    /// The same, with this in front of the store.
    pub(crate) fn behind(self, layer: Layer) -> Self {
        Self { layer, ..self }
    }

    /// Opens it to look at it, and to change what is in it; not to make it.
    pub(crate) async fn open(&self) -> Result<Opened, Failure> {
        self.check_is_there()?;
        self.open_at(&self.url_without_migrating()).await
    }

    /// Opens it, and makes it if there is none.
    pub(crate) async fn make(&self) -> Result<Opened, Failure> {
        self.check_outlives_the_process()?;
        self.open_at(&self.url).await
    }

    /// Opens it for a server, which makes it only if that is asked for. What is in memory lives as
    /// long as the server does, and is always made.
    pub(crate) async fn serve(&self, migrate: bool) -> Result<Opened, Failure> {
        if migrate || self.url == MEMORY {
            return self.open_at(&self.url).await;
        }
        self.open().await.map_err(|failure| match failure {
            Failure::NoStore { what, .. } => Failure::no_store(
                what,
                "--migrate, to make it or bring it up to date; or another --store URL",
            ),
            other => other,
        })
    }

    /// Opens it for the first time after it was restored from a backup.
    pub(crate) async fn open_restored(&self) -> Result<Opened, Failure> {
        self.check_is_there()?;
        match is_postgres(&self.url) {
            true => self.open_at(&self.url).await,
            false => self.open_at(&self.url_with("restored=1")).await,
        }
    }

    /// The URL as it may be shown.
    pub(crate) fn shown(&self) -> String {
        tidelock::redacted_url(&self.url)
    }

    /// Whether it is a file that is not there yet.
    pub(crate) fn is_missing(&self) -> bool {
        self.path().is_some_and(|path| !path.is_empty() && !Path::new(path).exists())
    }

    /// The version of the tables that this program knows for it.
    pub(crate) fn schema_version(&self) -> usize {
        match is_postgres(&self.url) {
            true => tidelock::postgres::SCHEMA_VERSION,
            false => tidelock::sqlite::SCHEMA_VERSION,
        }
    }

    async fn open_at(&self, url: &str) -> Result<Opened, Failure> {
        let opened = match is_postgres(url) {
            true => PostgresStore::open(url).await.map(|postgres| Opened {
                store: Arc::new(postgres.clone()),
                postgres: Some(postgres),
            }),
            false => tidelock::open(url).await.map(|store| Opened { store, postgres: None }),
        };
        let opened = opened.map_err(|error| self.not_opened(error))?;
        Ok(Opened { store: (self.layer)(opened.store), ..opened })
    }

    /// Why it is not open.
    pub(crate) fn not_opened(&self, source: StoreError) -> Failure {
        let context = source.context();
        let is_old =
            source.kind() == StoreErrorKind::Incompatible && context.contains(NOT_MIGRATED);
        // That nothing be migrated was asked for by the command, and not by whoever typed it.
        let why = context.split_once(NOT_MIGRATED).map_or(context, |(why, _)| why);
        let what = format!("cannot open store {:?}: {why}", self.shown());
        match source.kind() {
            StoreErrorKind::Invalid => Failure::usage(what, self.hint_on_url()),
            _ if is_old => Failure::no_store(
                what,
                "tidelock migrate, which makes a store, or brings one up to date",
            ),
            _ => Failure::Store { what, source: source.during(StoreOperation::Open) },
        }
    }

    fn hint_on_url(&self) -> String {
        match self.url.split_once(':') {
            Some(("memory" | "sqlite" | "postgres" | "postgresql", _)) => {
                "mend that, or name another store with --store URL".to_owned()
            }
            None if !self.url.is_empty() && !self.url.contains('=') => {
                format!("--store sqlite:{}, if a file is meant", self.url)
            }
            _ => "give sqlite:PATH or postgres://USER@HOST/DATABASE".to_owned(),
        }
    }

    fn check_is_there(&self) -> Result<(), Failure> {
        self.check_outlives_the_process()?;
        match self.path().filter(|_| self.is_missing()) {
            Some(path) => Err(Failure::no_store(
                format!("there is no store at {:?}: no file {path:?}", self.shown()),
                "--store URL or TIDELOCK_STORE to name another; tidelock migrate makes a new one here",
            )),
            None => Ok(()),
        }
    }

    fn check_outlives_the_process(&self) -> Result<(), Failure> {
        if self.url != MEMORY {
            return Ok(());
        }
        Err(Failure::usage(
            "memory: is a store inside one process: for a command there is never anything in it",
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
            // No URL at all: it is refused as it was typed.
            return self.url.clone();
        }
        let asked = self.url.split_once('?').map_or("", |(_, query)| query);
        let says = asked.split('&').any(|option| option.starts_with("migrate="));
        if says { self.url.clone() } else { self.url_with("migrate=0") }
    }

    /// The URL with one more option.
    fn url_with(&self, option: &str) -> String {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{mark}{option}", self.url)
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> StoreUrl {
        StoreUrl { url: url.to_owned(), layer: |store| store }
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
