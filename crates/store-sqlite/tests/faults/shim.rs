//! The shim: its settings, and a folder that it controls.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tidelock_test_disk::{Happening, compile_shim, parse_journal, shim_environment};

use crate::worker::Worker;

/// A folder on a faulty disk, for processes that are started on it.
#[derive(Debug)]
pub(crate) struct Shim {
    folder: TempDir,
}

impl Shim {
    /// Compiles the shim; where Rust links, there is a C compiler.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shim = Self { folder };
        fs::create_dir(shim.disk()).unwrap();
        compile_shim(&shim.path("")).unwrap();
        shim
    }

    /// The folder that the shim controls.
    pub(crate) fn disk(&self) -> PathBuf {
        self.path("disk")
    }

    /// The store's file in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.disk().join("store.db")
    }

    /// The journal of everything written.
    pub(crate) fn journal(&self) -> PathBuf {
        self.path("journal")
    }

    /// Everything that was written, in order.
    pub(crate) fn happenings(&self) -> Vec<(PathBuf, Happening)> {
        parse_journal(&fs::read(self.journal()).unwrap())
    }

    pub(crate) fn control(&self) -> Control {
        Control { path: self.path("control") }
    }

    /// Starts a worker on this disk; its first argument is the store's file, its second the control
    /// file.
    pub(crate) fn start(&self, role: &str, arguments: &[&dyn AsRef<OsStr>]) -> Worker {
        let (library, disk) = (self.path("shim.so"), self.disk());
        let (journal, control) = (self.journal(), self.path("control"));
        let environment = shim_environment(&library, &disk, &journal, &control);
        let environment = environment.map(|(name, path)| (name, path.as_os_str()));
        let file = self.file();
        let mut all: Vec<&dyn AsRef<OsStr>> = vec![&file, &control];
        all.extend(arguments);
        Worker::start_in(&environment, role, &all)
    }

    fn path(&self, name: &str) -> PathBuf {
        // The shim compares paths as the kernel knows them.
        self.folder.path().canonicalize().unwrap().join(name)
    }
}

/// The file that controls the shim.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    pub(crate) fn at(path: &str) -> Self {
        Self { path: path.into() }
    }

    /// Makes the shim do this from now on; the language is that of `shim.c`.
    pub(crate) fn set(&self, line: &str) {
        // Atomically, so that no call finds half a line.
        let new = self.path.with_extension("new");
        fs::write(&new, line).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    /// Makes it do nothing any more.
    pub(crate) fn lift(&self) {
        self.set("");
    }
}
