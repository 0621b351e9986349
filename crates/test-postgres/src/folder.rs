//! The folder of one server: its data, its sockets, and its log.
//!
//! Created here, removed by the [guardian](crate::guardian), which outlives this process.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::failure::Failure;
use crate::programs::Programs;

/// A socket's path is limited to 107 bytes, which a long temporary folder would exceed.
const LONGEST_PARENT: usize = 60;

/// Number of log lines that a failure quotes.
const LAST_WORDS: usize = 12;

/// Minimum free memory for files in memory, in bytes.
const ROOM: u64 = 4 << 30;

/// Where a server's files are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    Disk,
    /// Memory, if there is enough. `fsync` is fast and meaningless there, so this is for servers
    /// that are not the subject of a test.
    Memory,
}

/// The paths of one server.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    log: PathBuf,
}

impl Folder {
    /// Creates a new folder with an empty folder for sockets.
    pub(crate) fn create(programs: &Programs, medium: Medium) -> Result<Self, Failure> {
        let path = new_folder(medium).map_err(Failure::to("make a folder for a server"))?;
        let folder = Self {
            data: path.join("data"),
            sockets: path.join("sockets"),
            log: path.join("log"),
            path,
        };
        fs::create_dir(&folder.sockets).map_err(Failure::to("make a folder for sockets"))?;
        programs.hand_over(&folder.path)?;
        programs.hand_over(&folder.sockets)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Opens the log for appending.
    pub(crate) fn log(&self) -> Result<File, Failure> {
        File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(Failure::to("open the server's log"))
    }

    /// The end of the log, for a failure to quote.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }
}

/// Links are resolved, because the kernel reports a process's folder without them.
fn new_folder(medium: Medium) -> std::io::Result<PathBuf> {
    let (memory, parent) = (Path::new("/dev/shm"), env::temp_dir());
    let parent = match parent.as_os_str().len() {
        _ if medium == Medium::Memory && has_room(memory) => memory,
        ..=LONGEST_PARENT => &parent,
        _ => Path::new("/tmp"),
    };
    tempfile::Builder::new().prefix("tidelock-pg-").tempdir_in(parent)?.keep().canonicalize()
}

fn has_room(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|there| there.blocks_available() * there.fragment_size() >= ROOM)
}
