//! The journal of the shim: every write, truncation, flush and removal, in order.

use std::path::PathBuf;

/// An operation on a file.
#[derive(Debug, Clone)]
pub enum Happening {
    /// Bytes were written.
    Write {
        /// Where.
        offset: usize,
        /// What.
        bytes: Vec<u8>,
    },
    /// The file was cut, or extended.
    Truncate {
        /// Its length since.
        length: usize,
    },
    /// What was written was flushed.
    Sync,
    /// A flush failed.
    FailedSync,
    /// The file was removed.
    Unlink,
}

/// All operations in a journal, in order.
pub fn parse_journal(journal: &[u8]) -> Vec<(PathBuf, Happening)> {
    let mut rest = journal;
    let mut happenings = Vec::new();
    while !rest.is_empty() {
        let kind = u32::from_ne_bytes(*take(&mut rest));
        let path = u32::from_ne_bytes(*take(&mut rest)) as usize;
        let offset = u64::from_ne_bytes(*take(&mut rest)) as usize;
        let length = u64::from_ne_bytes(*take(&mut rest)) as usize;
        let path = PathBuf::from(str::from_utf8(bytes(&mut rest, path)).expect("a path is text"));
        let bytes = bytes(&mut rest, length).to_vec();
        let happening = match kind {
            1 => Happening::Write { offset, bytes },
            2 => Happening::Truncate { length: offset },
            3 => Happening::Sync,
            4 => Happening::FailedSync,
            5 => Happening::Unlink,
            _ => panic!("the shim notes nothing of kind {kind}"),
        };
        happenings.push((path, happening));
    }
    happenings
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> &'a [u8; N] {
    bytes(rest, N).try_into().expect("so many were taken")
}

fn bytes<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    rest.split_off(..count).expect("the journal is whole")
}
