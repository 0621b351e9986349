//! The names of one round, so that rounds, and other users of the store, do not collide.
//!
//! A stream of work, its item, the stream of its drains and the counter of its commits have names
//! derived from one number. Names are made only here.

use serde::{Deserialize, Serialize};
use tidelock::store::{CommitId, ItemKey, ItemRef, QueueName, RecordKey, StreamName};

use crate::reaction::Reaction;

/// The prefix of a run's history stream.
const HISTORY: &str = "~run/";
const FITS: &str = "a prefix and a number are short and plain";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Space {
    prefix: String,
}

impl Space {
    /// A new, unused name space.
    pub(crate) fn fresh() -> Self {
        Self { prefix: format!("stress-{}", CommitId::fresh()) }
    }

    /// The stream of work number `n`.
    pub(crate) fn work(&self, n: u64) -> StreamName {
        self.stream(&format!("work-{n}"))
    }

    /// The counter of the commits to work number `n`.
    pub(crate) fn total(&self, n: u64) -> RecordKey {
        RecordKey::new(format!("{}/total-{n}", self.prefix)).expect(FITS)
    }

    /// The item of work number `n`.
    pub(crate) fn item(&self, n: u64) -> ItemRef {
        ItemRef::new(&self.queue(), &ItemKey::new(format!("work-{n}")).expect(FITS))
    }

    /// The stream whose events an item's holder drains.
    pub(crate) fn work_of(&self, item: &ItemRef) -> StreamName {
        self.stream(item.key.as_str())
    }

    /// Whether this is a stream of work.
    pub(crate) fn is_work(&self, stream: &StreamName) -> bool {
        stream.as_str().starts_with(&self.work_prefix())
    }

    /// The name prefix of all streams of work.
    pub(crate) fn work_prefix(&self) -> String {
        format!("{}work-", self.stream_prefix())
    }

    /// The name under which a reaction is registered.
    pub(crate) fn reaction(&self, reaction: Reaction) -> String {
        format!("{}-{}", self.prefix, reaction.name())
    }

    /// The stream in which a reaction's handlers record what they handled at a target. Outside the
    /// name space of the other streams, because the application's commits are in no journal.
    pub(crate) fn handled(&self, reaction: Reaction, target: &str) -> StreamName {
        StreamName::new(format!("{}{target}", self.handled_by(reaction))).expect(FITS)
    }

    /// The name prefix of the streams that a reaction's handlers write to.
    pub(crate) fn handled_by(&self, reaction: Reaction) -> String {
        format!("{}{}/", self.handled_prefix(), reaction.name())
    }

    /// The name prefix of the streams that all handlers write to.
    pub(crate) fn handled_prefix(&self) -> String {
        format!("{}-handled/", self.prefix)
    }

    /// The name under which the workflow is registered.
    pub(crate) fn workflow(&self) -> String {
        self.prefix.clone()
    }

    /// The id of a run.
    pub(crate) fn run(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// The counter of a run.
    pub(crate) fn counted(&self, run: &str) -> RecordKey {
        RecordKey::new(format!("{run}/counted")).expect(FITS)
    }

    /// The work item of a run.
    pub(crate) fn run_item(&self, run: &str) -> ItemRef {
        let queue = QueueName::new(format!("~runs/{}@1", self.prefix)).expect(FITS);
        ItemRef::new(&queue, &ItemKey::new(run).expect(FITS))
    }

    /// The name prefix of the histories of runs.
    pub(crate) fn histories(&self) -> String {
        format!("{HISTORY}{}/", self.prefix)
    }

    /// The run whose history this stream is.
    pub(crate) fn run_of(&self, stream: &StreamName) -> Option<String> {
        stream.as_str().strip_prefix(HISTORY).map(str::to_owned)
    }

    /// The name of a right that is claimed.
    pub(crate) fn right(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The id of an account.
    pub(crate) fn account(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// The record that a lock protects: written without an expectation, under the lock alone.
    pub(crate) fn guarded(&self, lock: u64) -> RecordKey {
        RecordKey::new(format!("{}/guarded-{lock}", self.prefix)).expect(FITS)
    }

    /// The stream of the writes under a lock. Outside the name space of the other streams, as those
    /// commits are in no journal.
    pub(crate) fn bumps(&self, lock: u64) -> StreamName {
        StreamName::new(format!("{}-claimed/lock-{lock}", self.prefix)).expect(FITS)
    }

    /// The stream of completed keys.
    pub(crate) fn completions(&self) -> StreamName {
        StreamName::new(format!("{}-claimed/keys", self.prefix)).expect(FITS)
    }

    /// The stream of an item's drains.
    pub(crate) fn done_of(&self, item: &ItemRef) -> StreamName {
        self.stream(&format!("done-{}", item.key))
    }

    /// The stream whose only event marks the position in the feed where the round began.
    pub(crate) fn start(&self) -> StreamName {
        self.stream("start")
    }

    pub(crate) fn queue(&self) -> QueueName {
        QueueName::new(self.prefix.as_str()).expect(FITS)
    }

    /// The name prefix of all its streams.
    pub(crate) fn stream_prefix(&self) -> String {
        format!("{}/", self.prefix)
    }

    fn stream(&self, name: &str) -> StreamName {
        StreamName::new(format!("{}/{name}", self.prefix)).expect(FITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_leads_back_to_the_stream_that_wakes_it() {
        let space = Space::fresh();
        assert_eq!(space.work_of(&space.item(7)), space.work(7));
        assert_ne!(space.work(7), space.done_of(&space.item(7)));
        assert!(space.work(7).as_str().starts_with(&space.stream_prefix()));
        assert!(
            !space.handled(Reaction::Own, "work-7").as_str().starts_with(&space.stream_prefix())
        );
        assert_ne!(space.queue(), Space::fresh().queue());
    }
}
