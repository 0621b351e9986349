//! Where an export is read from: a file, or standard input.
//!
//! All of an export must be there before any of it is written, and it is read twice. So what comes
//! from standard input is kept in a file meanwhile, of which nobody knows the name: people are told
//! of what came in.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// A file to be imported, under the name that people know it by.
pub(crate) struct Source {
    path: PathBuf,
    name: String,
    /// The file is there for as long as this is.
    _kept: Option<NamedTempFile>,
}

impl Source {
    /// What the command line names.
    pub(crate) fn named(path: &Path) -> Result<Self, Failure> {
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

    pub(super) fn open(&self) -> Result<File, Failure> {
        File::open(&self.path).map_err(|e| self.unreadable(&e))
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> Failure {
        Failure::file("read", &self.name, error)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
