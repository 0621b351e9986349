//! Write-ahead journal of a worker: what it does and what it was told, before and after each call.
//!
//! A journal is one file per worker, one JSON object per line, each line one write to the file: an
//! entry before a SIGKILL survives it. Only the last line can be torn, and then it was never
//! finished: a torn attempt was not sent, a torn answer was not acted upon.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::store::{
    Commit, CommitId, CommitOutcome, Committed, Conflict, EventId, Fence, Lease, LeaseToken,
    Revision, StoredEvent, ViolationKind,
};

use crate::account::{Kept, Way};
use crate::board::Wish;
use crate::claim::Quota;
use crate::reaction::Reaction;
use crate::trouble::Trouble;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The moment of the entry that follows: the machine's monotonic clock, in nanoseconds, which
    /// all workers share.
    Now(u64),
    /// About to send this commit for the first time.
    Try(Commit),
    /// It was acknowledged.
    Acked { id: CommitId, committed: Committed },
    /// It was refused.
    Refused { id: CommitId, kinds: Vec<ViolationKind>, conflict: Conflict },
    /// It gave no answer.
    Failed { id: CommitId, trouble: Trouble },
    /// About to send it again; the store's clock says this.
    Again { id: CommitId, now: Timestamp },
    /// Its worker died without an answer, and the supervisor sends it again.
    Orphaned(CommitId),
    /// A lease was granted at this moment of the store's clock. It was asked for at the first one,
    /// as [`now`] has it.
    Held { asked: u64, at: Timestamp, lease: Lease },
    /// A lease now lasts until then.
    Renewed { asked: u64, lease: LeaseToken, deadline: Timestamp },
    /// The worker continued under this lease after it was held past the deadline.
    Late(LeaseToken),
    /// A page of the feed.
    Seen(Vec<StoredEvent>),
    /// A handler had an outside effect, for this event and under this key.
    Effect { reaction: Reaction, event: EventId, key: String },
    /// About to start this run, and to signal it.
    Ordered(String),
    /// The run has ended, with this result.
    Told { run: String, result: String },
    /// A step of a run had an outside effect, under this key.
    Acted { run: String, step: String, key: String },
    /// About to request this change of a scope.
    Wished(Wish),
    /// It was done, at this revision, and the sum or the length is this.
    Changed { id: String, revision: Revision, value: i64 },
    /// It was not done, and is not requested again.
    Declined(String),
    /// About to book this in an account.
    Booking { account: String, id: String },
    /// It was booked.
    Booked(String),
    /// It was refused, because the account is closed.
    Shut(String),
    /// About to close the books of an account in this way.
    Closing { account: String, way: Way },
    /// A page for the archive.
    Archived { account: String, events: Vec<Kept> },
    /// The closing ended.
    Closed { account: String, way: Way },
    /// A lock was granted under this fence, at this moment or before.
    Locked { lock: u64, fence: Fence, since: Timestamp },
    /// What was written under the lock was acknowledged.
    Bumped { lock: u64, fence: Fence },
    /// It was refused, because another process has the lock.
    Outrun { lock: u64, fence: Fence },
    /// A key was granted under this fence.
    Won { key: String, fence: Fence },
    /// The reported result of the key.
    Receipt { key: String, result: String },
    /// Units of a quota are taken from this moment, and until then unless they are returned.
    Took { id: String, quota: Quota, units: i64, from: Timestamp, until: Timestamp },
    /// About to return them; the store's clock says this.
    GivesBack { id: String, at: Timestamp },
    /// A call other than a commit gave no answer.
    Stumbled { during: String, trouble: Trouble },
}

impl Entry {
    /// The answer to a commit.
    pub(crate) fn answer(id: CommitId, outcome: &CommitOutcome) -> Self {
        match outcome {
            CommitOutcome::Committed(committed) => Self::Acked { id, committed: committed.clone() },
            CommitOutcome::Conflict(conflict) => {
                let kinds = conflict.violations.iter().map(|clash| clash.reason.kind()).collect();
                Self::Refused { id, kinds, conflict: conflict.clone() }
            }
        }
    }
}

/// The writing end of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
}

impl Journal {
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(File::create_new(path)?) })
    }

    /// Writes the moment and the entry at once. Entries of a journal are in the order of their
    /// moments.
    pub(crate) fn note(&self, entry: &Entry) {
        let mut file = self.file.lock();
        let lines = [line(&Entry::Now(now())), line(entry)].concat();
        // A worker that cannot write its journal must not continue.
        file.write_all(&lines).expect("the journal can be written");
    }
}

fn line(entry: &Entry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).expect("an entry is made of names, numbers and JSON");
    line.push(b'\n');
    line
}

/// The machine's monotonic clock, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every machine has this clock");
    let nanos = Duration::from(time).as_nanos();
    u64::try_from(nanos).expect("no machine runs for centuries")
}

/// Reads a journal, without a torn last line. A missing file means that the worker did nothing.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        text => text?,
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &text[..end]);
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(io::Error::other)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock::store::{Commit, CommitId};

    #[test]
    fn a_torn_last_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        let journal = Journal::begin(&path).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        let tries = [1, 2].map(|_| Entry::Try(Commit::new().with_id(CommitId::fresh())));
        tries.iter().for_each(|entry| journal.note(entry));
        let entries = read(&path).unwrap();
        assert_eq!(entries.iter().skip(1).step_by(2).collect::<Vec<_>>(), tries.each_ref());
        journal.file.lock().write_all(b"{\"try\":{\"id\"").unwrap();
        assert_eq!(read(&path).unwrap(), entries);
    }
}
