//! What a worker did and was told, written down before and after each call.
//!
//! A journal is a file of its own per worker, a JSON object a line, each line one write to the
//! file: what was noted before a SIGKILL is there after it. Only the last line can be torn, and
//! then it was never finished: a torn try was not sent, a torn answer was not acted upon.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidelock::{
    Commit, CommitId, CommitOutcome, Committed, EventId, Fence, Lease, LeaseToken, Revision,
    StoredEvent, Timestamp, ViolationKind,
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
    /// About to send this commit for the first time.
    Try(Commit),
    /// It was acknowledged.
    Acked { id: CommitId, committed: Committed },
    /// It was refused.
    Refused { id: CommitId, kinds: Vec<ViolationKind>, why: String },
    /// It gave no answer.
    Failed { id: CommitId, trouble: Trouble },
    /// About to send it again; the store's clock says this.
    Again { id: CommitId, now: Timestamp },
    /// Its worker died without an answer, and the supervisor asks for one.
    Orphaned(CommitId),
    /// A lease was granted at this moment.
    Held { at: Timestamp, lease: Lease },
    /// A lease now lasts until then.
    Renewed { lease: LeaseToken, deadline: Timestamp },
    /// Went on under this lease after it was kept from working past the deadline.
    Late(LeaseToken),
    /// A page of the feed.
    Seen(Vec<StoredEvent>),
    /// A handler did something that the store knows nothing of, for this event and under this key.
    Effect { reaction: Reaction, event: EventId, key: String },
    /// About to ask for this run: to start it, and to let it go.
    Ordered(String),
    /// The run has ended, and this is said to be its result.
    Told { run: String, result: String },
    /// A step of a run did something that the store knows nothing of, under this key.
    Acted { run: String, step: String, key: String },
    /// About to ask for this change of a scope.
    Wished(Wish),
    /// It was done, at this revision, and made the sum or the length this.
    Changed { id: String, revision: Revision, value: i64 },
    /// It was not done, and is not asked for again.
    Declined(String),
    /// About to book this in an account.
    Booking { account: String, id: String },
    /// It was booked.
    Booked(String),
    /// It was not, as the account takes no events.
    Shut(String),
    /// About to close the books of an account in this way.
    Closing { account: String, way: Way },
    /// A page for the archive.
    Archived { account: String, events: Vec<Kept> },
    /// The closing came to its end.
    Closed { account: String, way: Way },
    /// A lock was granted under this fence, at this moment or before.
    Locked { lock: u64, fence: Fence, since: Timestamp },
    /// What was written under the lock was acknowledged.
    Bumped { lock: u64, fence: Fence },
    /// It was refused, because another has the lock.
    Outrun { lock: u64, fence: Fence },
    /// A key was granted under this fence.
    Won { key: String, fence: Fence },
    /// This is said to be the result of the key.
    Receipt { key: String, result: String },
    /// So many units of a quota are out at this moment, and until then unless they are given back.
    Took { id: String, quota: Quota, units: i64, from: Timestamp, until: Timestamp },
    /// About to give them back; the store's clock says this.
    GivesBack { id: String, at: Timestamp },
    /// A call other than a commit gave no answer.
    Stumbled { during: String, trouble: Trouble },
}

impl Entry {
    /// The answer that a commit got.
    pub(crate) fn answer(id: CommitId, outcome: &CommitOutcome) -> Self {
        match outcome {
            CommitOutcome::Committed(committed) => Self::Acked { id, committed: committed.clone() },
            CommitOutcome::Conflict(conflict) => {
                let kinds = conflict.violations.iter().map(|clash| clash.reason.kind()).collect();
                Self::Refused { id, kinds, why: conflict.to_string() }
            }
        }
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
}

impl Journal {
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(File::create_new(path)?) })
    }

    pub(crate) fn note(&self, entry: &Entry) {
        let mut line =
            serde_json::to_vec(entry).expect("an entry is made of names, numbers and JSON");
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A worker that cannot say what it does must not do it.
        file.write_all(&line).expect("the journal can be written");
    }
}

/// Everything in a journal, but for a last line that was never finished. Who did not get to begin
/// one did nothing.
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
    use tidelock::{Commit, CommitId};

    #[test]
    fn a_line_that_a_kill_cut_short_is_left_out_and_the_others_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker");
        let journal = Journal::begin(&path).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        let tries = [1, 2].map(|_| Entry::Try(Commit::new().with_id(CommitId::fresh())));
        tries.iter().for_each(|entry| journal.note(entry));
        assert_eq!(read(&path).unwrap(), tries);
        journal.file.lock().unwrap().write_all(b"{\"try\":{\"id\"").unwrap();
        assert_eq!(read(&path).unwrap(), tries);
    }
}
