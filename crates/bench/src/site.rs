//! Where a workload is measured: a store of its own, filled for it, and beside it a copy for the bare loop.
//!
//! No two workloads share a store, so that none runs on what another left behind. The bare loop's file is a copy of
//! the store's after filling: the same tables, indexes and rows, laid out in the same way.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidelock::{ErrorKind, Store};

use crate::bare;
use crate::failure::Failure;

const KNOWN: &str = "memory:, sqlite: or sqlite:PATH";

/// Which kind of store, and where its files go.
#[derive(Debug)]
pub(crate) enum Target {
    Memory,
    Sqlite {
        path: PathBuf,
        /// As they stood in the URL, question mark included.
        options: String,
        /// The folder that was made for the file, if none was named.
        _folder: Option<TempDir>,
    },
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        let Some(rest) = url.strip_prefix("sqlite:") else {
            return Err(Failure::Usage {
                what: format!("store {url:?} is none that can be measured"),
                hint: KNOWN.to_owned(),
            });
        };
        let (path, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (path, options) = (path.strip_prefix("//").unwrap_or(path), options.to_owned());
        if path.is_empty() {
            let folder = tempfile::Builder::new().prefix("tidelock-bench-").tempdir()?;
            return Ok(Self::Sqlite { path: folder.path().join("bench.db"), options, _folder: Some(folder) });
        }
        let target = Self::Sqlite { path: path.into(), options, _folder: None };
        target.check_free()?;
        Ok(target)
    }

    /// The same kind of store in another file.
    pub(crate) fn another(&self, ending: &str) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Sqlite { path, options, .. } => {
                Self::Sqlite { path: beside(path, ending), options: options.clone(), _folder: None }
            }
        }
    }

    /// The file of the store, and the one of the bare loop.
    fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Memory => Vec::new(),
            Self::Sqlite { path, .. } => vec![path.clone(), beside(path, "-bare")],
        }
    }

    /// A bench that wrote into a store which somebody uses could not be undone.
    fn check_free(&self) -> Result<(), Failure> {
        self.files().iter().try_for_each(|file| is_free(file))
    }

    async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let url = self.url();
        tidelock::open(&url).await.map_err(|error| match error.kind() {
            ErrorKind::Invalid => Failure::Usage {
                what: format!("cannot open store {url:?}: {}", error.context()),
                hint: KNOWN.to_owned(),
            },
            _ => error.into(),
        })
    }

    fn url(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Sqlite { path, options, .. } => format!("sqlite:{}{options}", path.display()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

/// A store that was filled for one workload, and the copy for its bare loop.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) store: Arc<dyn Store>,
    /// The file of the bare loop; none for a store that has nothing under it.
    pub(crate) bare: Option<PathBuf>,
    _files: Files,
}

impl Site {
    /// Makes a new store, fills it, and copies it.
    pub(crate) async fn filled(
        target: &Target,
        fill: impl AsyncFnOnce(&dyn Store) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        target.check_free()?;
        let files = Files(target.files());
        let store = target.open().await?;
        fill(&*store).await?;
        let Target::Sqlite { path, .. } = target else {
            return Ok(Self { store, bare: None, _files: files });
        };
        store.close().await?;
        drop(store);
        let bare = beside(path, "-bare");
        bare::copy(path, &bare)?;
        Ok(Self { store: target.open().await?, bare: Some(bare), _files: files })
    }

    /// Closes the store and removes its files.
    pub(crate) async fn clear(self) -> Result<(), Failure> {
        Ok(self.store.close().await?)
    }
}

/// Files that go away with their site, also when a workload fails.
#[derive(Debug)]
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for file in self.0.iter().flat_map(|file| [file.clone(), beside(file, "-wal"), beside(file, "-shm")])
        {
            // Most often because it is not there.
            let _ = fs::remove_file(file);
        }
    }
}

fn is_free(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() || found.len() > 0 => Err(Failure::Usage {
            what: format!("{} is there already: a bench only writes into a file of its own", path.display()),
            hint: "another path, or sqlite: alone for a file in a temporary folder".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
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
        fs::write(&path, "somebody's data").unwrap();
        let refused = Target::parse(&url).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains("shop.db is there already"), "{refused}");
    }

    #[test]
    fn only_stores_that_can_be_measured_are() {
        assert!(matches!(Target::parse("memory:").unwrap(), Target::Memory));
        assert!(Target::parse("sqlite:").unwrap().to_string().ends_with("bench.db"));
        assert!(Target::parse("redis:").unwrap_err().to_string().contains("\"redis:\""));
    }
}
