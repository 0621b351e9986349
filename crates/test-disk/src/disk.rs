//! A disk model: what a disk holds after a power failure, computed from the journal of writes.
//!
//! What was written before a successful flush is there. What was written since may be there, or
//! not, or in part, each write independently and in no order. A failed flush promises nothing, then
//! or later: the kernel forgets what it could not write (LWN calls it "fsyncgate"), and so does
//! this disk. The creation or removal of a file is certain once its folder was flushed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::journal::Happening;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// Chance, from a seed.
pub trait Chance {
    /// A number below this one.
    fn below(&mut self, end: u64) -> u64;

    /// True once in this many times.
    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A folder on a disk, between the flushes.
#[derive(Debug, Default)]
pub struct Disk {
    files: BTreeMap<PathBuf, File>,
}

#[derive(Debug, Default)]
struct File {
    /// What is certain.
    content: Vec<u8>,
    /// What was written since the last flush, and whether a flush of it failed.
    pending: Vec<(Happening, bool)>,
    /// Whether its name is certain to be in the folder.
    listed: bool,
    /// Whether its removal is pending.
    unlinked: bool,
}

impl Disk {
    /// Applies the next operation.
    pub fn take(&mut self, path: &Path, happening: &Happening, chance: &mut impl Chance) {
        match happening {
            Happening::Sync if self.is_folder(path) => self.sync_folder(),
            Happening::FailedSync if self.is_folder(path) => {}
            Happening::Sync => self.file(path).sync(chance),
            Happening::FailedSync => {
                self.file(path).pending.iter_mut().for_each(|(_, doomed)| *doomed = true);
            }
            Happening::Unlink => self.file(path).unlinked = true,
            Happening::Write { .. } | Happening::Truncate { .. } => {
                let file = self.file(path);
                if file.unlinked {
                    // A new file of the same name.
                    *file = File::default();
                }
                file.pending.push((happening.clone(), false));
            }
        }
    }

    /// Writes into a folder what the disk might hold if the power failed now.
    ///
    /// # Errors
    /// Those of the real disk.
    pub fn lose_power(&self, folder: &Path, chance: &mut impl Chance) -> io::Result<()> {
        for (path, file) in &self.files {
            let there = match (file.listed, file.unlinked) {
                (true, false) => true,
                (false, true) => false,
                _ => chance.one_in(2),
            };
            if there && let Some(name) = path.file_name() {
                fs::write(folder.join(name), file.after_loss(chance))?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> &mut File {
        self.files.entry(path.to_owned()).or_default()
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.parent() == Some(path))
    }

    fn sync_folder(&mut self) {
        self.files.retain(|_, file| !file.unlinked);
        self.files.values_mut().for_each(|file| file.listed = true);
    }
}

impl File {
    fn sync(&mut self, chance: &mut impl Chance) {
        for (happening, doomed) in std::mem::take(&mut self.pending) {
            if !doomed || chance.one_in(2) {
                apply(&mut self.content, &happening);
            }
        }
    }

    fn after_loss(&self, chance: &mut impl Chance) -> Vec<u8> {
        let mut content = self.content.clone();
        // None of it, all of it, or some of it: the last includes most orders of the disk.
        let fate = chance.below(4);
        for (happening, _) in &self.pending {
            match (fate, happening) {
                (0, _) => {}
                (1, _) => apply(&mut content, happening),
                (_, Happening::Write { offset, bytes }) => {
                    write_in_part(&mut content, *offset, bytes, chance);
                }
                (_, happening) if chance.one_in(2) => apply(&mut content, happening),
                _ => {}
            }
        }
        content
    }
}

fn apply(content: &mut Vec<u8>, happening: &Happening) {
    match happening {
        Happening::Write { offset, bytes } => {
            content.resize(content.len().max(offset + bytes.len()), 0);
            content[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Happening::Truncate { length } => content.resize(*length, 0),
        Happening::Sync | Happening::FailedSync | Happening::Unlink => {}
    }
}

/// Writes some of the sectors of the bytes: all, none, the first few, or any.
fn write_in_part(content: &mut Vec<u8>, offset: usize, bytes: &[u8], chance: &mut impl Chance) {
    let fate = chance.below(4);
    let cut = chance.below(bytes.len() as u64 + 1) as usize;
    let mut start = 0;
    while start < bytes.len() {
        let end = bytes.len().min((offset + start) / SECTOR * SECTOR + SECTOR - offset);
        let lands = match fate {
            0 => false,
            1 => true,
            2 => start < cut,
            _ => chance.one_in(2),
        };
        if lands {
            apply(
                content,
                &Happening::Write { offset: offset + start, bytes: bytes[start..end].to_vec() },
            );
        }
        start = end;
    }
}
