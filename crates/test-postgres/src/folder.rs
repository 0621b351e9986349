//! The folder of one server: its data, its sockets, and what it says.
//!
//! Made here, removed by the [guardian](crate::guardian), which outlives us.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::failure::Failure;
use crate::programs::Programs;

/// A socket's path has 107 bytes, which a long folder for temporary files would use up.
const LONGEST_PARENT: usize = 60;

/// How much of the log a failure quotes.
const LAST_WORDS: usize = 12;

/// In memory if the machine has this much to spare for it, in bytes.
const ROOM: u64 = 4 << 30;

/// What a server's files are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    Disk,
    /// Memory, where there is enough of it. `fsync` is as quick as it is meaningless there, so this
    /// is for servers that are not the subject of a test.
    Memory,
}

/// Where everything of one server is.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    log: PathBuf,
}

impl Folder {
    /// A new folder, with room for everything and nothing in it but an empty folder for sockets.
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

    /// The log, to be written on at its end.
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

/// Links are resolved, because the kernel names a process's folder without them.
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
