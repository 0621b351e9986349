//! The store that is measured.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidelock::store::{Store, StoreErrorKind};

use crate::database::Database;
use crate::failure::Failure;

const KNOWN: &str = "memory:, sqlite:, sqlite:PATH, postgres: or postgres://USER@HOST/DATABASE";

/// A kind of store, and its location.
#[derive(Debug)]
pub(crate) enum Target {
    Memory,
    Sqlite {
        path: PathBuf,
        /// The query of the URL, question mark included.
        options: String,
        /// The temporary folder of the file, if none was named.
        _folder: Option<TempDir>,
    },
    Postgres {
        database: Database,
        /// The schema of the store.
        schema: String,
    },
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", rest)) => Self::file(rest),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres {
                database: Database::parse(url)?,
                schema: "tidelock_bench".to_owned(),
            }),
            // What follows the colon may hold a password.
            scheme => Err(Failure::Usage {
                what: format!(
                    "store {:?} is none that can be measured",
                    tidelock::redacted_url(scheme.map_or(url, |(name, _)| name))
                ),
                hint: KNOWN.to_owned(),
            }),
        }
    }

    fn file(rest: &str) -> Result<Self, Failure> {
        let (path, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (path, options) = (path.strip_prefix("//").unwrap_or(path), options.to_owned());
        if path.is_empty() {
            let folder = tempfile::Builder::new().prefix("tidelock-bench-").tempdir()?;
            return Ok(Self::Sqlite {
                path: folder.path().join("bench.db"),
                options,
                _folder: Some(folder),
            });
        }
        let target = Self::Sqlite { path: path.into(), options, _folder: None };
        target.check_free()?;
        Ok(target)
    }

    /// The same kind of store in another place.
    pub(crate) fn another(&self, ending: &str) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Sqlite { path, options, .. } => Self::Sqlite {
                path: beside(path, &format!("-{ending}")),
                options: options.clone(),
                _folder: None,
            },
            Self::Postgres { database, schema } => {
                Self::Postgres { database: database.clone(), schema: format!("{schema}_{ending}") }
            }
        }
    }

    /// The file of the store, and that of the baseline.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Sqlite { path, .. } => vec![path.clone(), beside(path, "-baseline")],
            _ => Vec::new(),
        }
    }

    /// Refuses existing files: a bench must never write into a store in use.
    pub(crate) fn check_free(&self) -> Result<(), Failure> {
        self.files().iter().try_for_each(|file| is_free(file))
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        tidelock::open(&self.url()).await.map_err(|error| match error.kind() {
            StoreErrorKind::Invalid => Failure::Usage {
                what: format!("cannot open store {:?}: {}", self.to_string(), error.context()),
                hint: KNOWN.to_owned(),
            },
            _ => error.into(),
        })
    }

    /// The URL of the store itself, with the password if there is one.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Sqlite { path, options, .. } => format!("sqlite:{}{options}", path.display()),
            Self::Postgres { database, schema } => database.store_url(schema),
        }
    }

    /// A description of the store, printed above the figures; none where docs/speed.md has
    /// everything.
    pub(crate) async fn describe(&self) -> Result<Option<String>, Failure> {
        match self {
            Self::Postgres { database, .. } => database.describe().await.map(Some),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres { database, .. } => write!(f, "postgres://{database}"),
            _ => f.write_str(&self.url()),
        }
    }
}

fn is_free(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() || found.len() > 0 => Err(Failure::Usage {
            what: format!("{} exists already: a bench only writes into a new file", path.display()),
            hint: "another path, or sqlite: alone for a file in a temporary folder".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The path with a suffix added to its file name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let url = format!("sqlite:{}?readers=2", path.display());
        fs::write(&path, "").unwrap();
        assert_eq!(Target::parse(&url).unwrap().to_string(), url);
        fs::write(&path, "foreign data").unwrap();
        let refused = Target::parse(&url).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains("shop.db exists already"), "{refused}");
    }

    #[test]
    fn only_stores_that_can_be_measured_are() {
        assert!(matches!(Target::parse("memory:").unwrap(), Target::Memory));
        assert!(Target::parse("sqlite:").unwrap().to_string().ends_with("bench.db"));
        assert!(
            Target::parse("redis://joe:hush@host").unwrap_err().to_string().contains("\"redis\"")
        );
    }
}
