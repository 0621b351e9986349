//! The source of an import: a file, or standard input.
//!
//! An export must be complete before any of it is written, and it is read twice. So standard input
//! is spooled to a temporary file, which messages call "standard input".

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, Result};

/// A file to import, and its name in messages.
pub(crate) struct Source {
    path: PathBuf,
    name: String,
    /// Keeps the temporary file.
    _kept: Option<NamedTempFile>,
}

impl Source {
    /// The source from the command line.
    pub(crate) fn named(path: &Path) -> Result<Self> {
        match path.as_os_str() == "-" {
            true => Ok(Self::input()?),
            false => Ok(Self::file(path)),
        }
    }

    pub(super) fn file(path: &Path) -> Self {
        Self { path: path.to_owned(), name: path.to_string_lossy().into_owned(), _kept: None }
    }

    fn input() -> io::Result<Self> {
        let mut kept = NamedTempFile::new()?;
        io::copy(&mut io::stdin().lock(), &mut kept)?;
        kept.flush()?;
        Ok(Self {
            path: kept.path().to_owned(),
            name: "standard input".to_owned(),
            _kept: Some(kept),
        })
    }

    pub(super) fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(|e| self.unreadable(&e))
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> Failure {
        Failure::file("read", &self.name, error)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
