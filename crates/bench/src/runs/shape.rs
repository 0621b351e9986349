//! The commits of one run, to be made again under other names.
//!
//! So the baseline commits exactly what a run does, byte for byte except names and ids. No key of a
//! run is spelled here: wherever the run's id occurs in a name, it is replaced.

use tidelock::store::{
    Commit, CommitId, EventId, ItemKey, ItemRef, LeaseToken, QueueName, RecordKey, RecordWrite,
    StreamName, Wake,
};

use crate::failure::Failure;

/// The commits of a run.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    run: String,
    commits: Vec<Commit>,
}

impl Shape {
    /// Selects the commits of this run.
    pub(super) fn of(run: &str, commits: Vec<Commit>) -> Result<Self, Failure> {
        let is_of = |commit: &Commit| {
            commit.appends.iter().any(|append| append.stream.as_str().contains(run))
        };
        let commits: Vec<_> = commits.into_iter().filter(is_of).collect();
        match commits.is_empty() {
            true => Err(Failure::Answer(format!("nothing was committed for run {run:?}"))),
            false => Ok(Self { run: run.to_owned(), commits }),
        }
    }

    /// The number of commits.
    pub(super) fn len(&self) -> usize {
        self.commits.len()
    }

    /// The stream of its history.
    pub(super) fn stream(&self) -> Option<&StreamName> {
        self.commits.first()?.appends.first().map(|append| &append.stream)
    }

    /// Its work item.
    pub(super) fn item(&self) -> Option<&ItemRef> {
        self.wakes().next().map(|wake| &wake.item)
    }

    /// The nth commit of this run, with its item in this queue, under this lease.
    pub(super) fn commit(
        &self,
        nth: usize,
        run: &str,
        queue: &QueueName,
        lease: &LeaseToken,
    ) -> Result<Commit, Failure> {
        let mut commit = self.commits[nth].clone();
        commit.id = commit.id.map(|_| CommitId::fresh());
        for append in &mut commit.appends {
            append.stream = StreamName::new(self.renamed(append.stream.as_str(), run))?;
            append.events.iter_mut().for_each(|event| event.id = EventId::fresh());
        }
        for write in &mut commit.writes {
            write.key = self.record_key(write, run)?;
        }
        for wake in &mut commit.wakes {
            wake.item = ItemRef { queue: queue.clone(), key: self.item_key(wake, run)? };
        }
        commit.settlements.iter_mut().for_each(|settlement| settlement.lease = lease.clone());
        commit.fences.iter_mut().for_each(|fence| fence.clone_from(lease));
        Ok(commit)
    }

    /// How many parts [`at_rest`](Self::at_rest) has for each run.
    pub(super) fn parts_at_rest(&self) -> usize {
        self.commits[0].writes.len() + 1
    }

    /// Adds the state of a sleeping run without its history: its records, and its item with the
    /// last wake.
    pub(super) fn at_rest(&self, mut commit: Commit, run: &str) -> Result<Commit, Failure> {
        for write in &self.commits[0].writes {
            commit =
                commit.write(RecordWrite { key: self.record_key(write, run)?, ..write.clone() });
        }
        let Some(wake) = self.wakes().last() else { return Ok(commit) };
        let item = ItemRef { queue: wake.item.queue.clone(), key: self.item_key(wake, run)? };
        Ok(commit.wake(Wake { item, ..wake.clone() }))
    }

    fn wakes(&self) -> impl Iterator<Item = &Wake> {
        self.commits.iter().flat_map(|commit| &commit.wakes)
    }

    fn record_key(&self, write: &RecordWrite, run: &str) -> Result<RecordKey, Failure> {
        Ok(RecordKey::new(self.renamed(write.key.as_str(), run))?)
    }

    fn item_key(&self, wake: &Wake, run: &str) -> Result<ItemKey, Failure> {
        Ok(ItemKey::new(self.renamed(wake.item.key.as_str(), run))?)
    }

    fn renamed(&self, name: &str, run: &str) -> String {
        name.replace(&self.run, run)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidelock::store::{Fence, NewEvent, RawJson};
    use tidelock::{ExpectedVersion, When};

    use super::*;

    fn shape() -> Shape {
        let item = ItemRef::parse("work", "r-1").unwrap();
        let event = NewEvent::of("begun", &()).unwrap();
        let (stream, key) = (StreamName::new("s/r-1").unwrap(), RecordKey::new("k/r-1").unwrap());
        let put = RecordWrite::put(
            &key,
            tidelock::store::ExpectedRevision::Absent,
            RawJson::new(&7).unwrap(),
        );
        let begin = Commit::new()
            .append(&stream, ExpectedVersion::Any, [event])
            .write(put)
            .wake(Wake::at(item.clone(), When::NOW));
        let other = Commit::new().wake(Wake::at(item.clone(), When::NOW));
        let event = NewEvent::of("slept", &()).unwrap();
        let sleep = Commit::new()
            .append(&stream, ExpectedVersion::Any, [event])
            .wake(Wake::at(item, When::In(Duration::from_secs(9))));
        Shape::of("r-1", vec![begin, other, sleep]).unwrap()
    }

    #[test]
    fn a_commit_is_made_again_under_other_names() {
        let (shape, queue) = (shape(), QueueName::new("mine").unwrap());
        assert_eq!(shape.len(), 2, "only what writes the run's history");
        let lease = LeaseToken { item: ItemRef::parse("mine", "x").unwrap(), fence: Fence::FIRST };
        let commit = shape.commit(0, "r-2", &queue, &lease).unwrap();
        assert_eq!(commit.appends[0].stream.as_str(), "s/r-2");
        assert_ne!(commit.appends[0].events[0].id, shape.commits[0].appends[0].events[0].id);
        assert_eq!(commit.writes[0].key.as_str(), "k/r-2");
        assert_eq!(commit.wakes[0].item, ItemRef::parse("mine", "r-2").unwrap());
    }

    #[test]
    fn a_run_at_rest_is_its_records_and_its_last_wake() {
        let shape = shape();
        let commit = shape.at_rest(Commit::new(), "r-2").unwrap();
        assert_eq!((commit.parts(), commit.appends.len()), (shape.parts_at_rest(), 0));
        assert_eq!(commit.wakes[0].item, ItemRef::parse("work", "r-2").unwrap());
        assert_eq!(commit.wakes[0].due, Some(When::In(Duration::from_secs(9))));
    }
}
