//! Losses of power: what a disk holds afterwards, worked out from what was written and flushed.
//!
//! That is known if this process runs behind the shim of `tidelock-test-disk`, which keeps a
//! journal of it. Otherwise there is no power to lose.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tidelock_test_disk::{Chance, Disk, Happening, parse_journal};

use super::rng::Rng;

/// The variable with the folder that the shim looks after.
pub(crate) const FOLDER: &str = "SHIM_FOLDER";
/// The variable with the path of its journal.
pub(crate) const JOURNAL: &str = "SHIM_JOURNAL";

/// The disk below a folder, and its power.
#[derive(Debug)]
pub(crate) struct Power {
    journal: File,
    disk: Disk,
    folder: PathBuf,
    rng: Rng,
    /// A disk that takes no flush of the log seriously, as a control.
    is_careless: bool,
    /// After so many commits the power fails in the middle of one.
    left: Option<u64>,
}

impl Power {
    /// The power of a disk that is still empty, if there is one to lose.
    pub(crate) fn below(folder: &Path, rng: Rng, is_careless: bool) -> Option<Self> {
        let journal = std::env::var_os(JOURNAL)?;
        let journal =
            File::options().read(true).write(true).create(true).truncate(true).open(journal);
        let journal = journal.expect("the journal of the shim can be opened");
        let (disk, folder) = (Disk::default(), folder.to_owned());
        Some(Self { journal, disk, folder, rng, is_careless, left: None })
    }

    /// The power fails in the middle of one of the next commits.
    pub(crate) fn fail_soon(&mut self) {
        self.left = Some(self.rng.below(10));
    }

    /// Whether the power fails in the middle of the commit that begins now.
    pub(crate) fn fails_now(&mut self) -> bool {
        let fails = self.left == Some(0);
        self.left = self.left.and_then(|left| left.checked_sub(1));
        if fails {
            self.take_all();
        }
        fails
    }

    /// The power fails now, with everything before it, or with a part of what was written since the
    /// beginning of the commit. What the disk holds is in another folder.
    pub(crate) fn fail(&mut self, amid: bool, folder: &Path) -> io::Result<()> {
        let happenings = self.read();
        let count = happenings.len() as u64;
        let kept = if amid { self.rng.below(count + 1) } else { count };
        self.take(&happenings[..usize::try_from(kept).unwrap_or(0)]);
        fs::create_dir(folder)?;
        self.disk.lose_power(folder, &mut self.rng)?;
        // From here on the rest is certain.
        (self.disk, self.folder) = (Disk::default(), folder.to_owned());
        for file in fs::read_dir(folder)? {
            File::options().write(true).open(file?.path())?.sync_all()?;
        }
        File::open(folder)?.sync_all()
    }

    fn take_all(&mut self) {
        let happenings = self.read();
        self.take(&happenings);
    }

    fn take(&mut self, happenings: &[(PathBuf, Happening)]) {
        for (path, happening) in happenings {
            let is_below = *path == self.folder || path.parent() == Some(&self.folder);
            let name = path.to_string_lossy();
            let is_log = name.ends_with("-wal");
            let is_ignored = self.is_careless && is_log && matches!(happening, Happening::Sync);
            if is_below && !is_ignored && !name.ends_with("-shm") {
                self.disk.take(path, happening, &mut self.rng);
            }
        }
    }

    /// What happened since the last call, in all folders.
    fn read(&mut self) -> Vec<(PathBuf, Happening)> {
        let mut bytes = Vec::new();
        self.journal.read_to_end(&mut bytes).expect("the journal of the shim can be read");
        parse_journal(&bytes)
    }
}

impl Chance for Rng {
    fn below(&mut self, end: u64) -> u64 {
        Self::below(self, end)
    }
}
