//! Keys of jobs: the only place that spells their record keys.

use tidelock_store::{ItemRef, RecordKey};

const JOB: &str = "~job/";

/// The record of a job: its progress, and what became of it. The length prefix delimits the queue's
/// name, whatever it contains.
pub(crate) fn job(item: &ItemRef) -> RecordKey {
    let key = format!("{}{}", jobs_of(item.queue.as_str()), item.key);
    RecordKey::new(key).expect("the names of queues and items leave room for this")
}

/// The prefix of the records of a queue's jobs.
pub(crate) fn jobs_of(queue: &str) -> String {
    format!("{JOB}{}/{queue}/", queue.len())
}

/// The prefix of the records of all jobs.
pub(crate) fn jobs() -> &'static str {
    JOB
}

/// The job of a record.
pub(crate) fn item_of(key: &RecordKey) -> Option<ItemRef> {
    let (length, rest) = key.as_str().strip_prefix(JOB)?.split_once('/')?;
    let queue = rest.get(..length.parse().ok()?)?;
    ItemRef::parse(queue, rest.get(queue.len()..)?.strip_prefix('/')?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::limits;

    #[test]
    fn no_two_jobs_share_a_record_and_the_job_of_each_is_found() {
        let long = ("q".repeat(limits::QUEUE_NAME_BYTES), "k".repeat(limits::ITEM_KEY_BYTES));
        let names = [("a/b", "c"), ("a", "b/c"), ("a", "3/b"), ("é/", "/"), (&long.0, &long.1)];
        let items = names.map(|(queue, key)| ItemRef::parse(queue, key).unwrap());
        for one in &items {
            assert_eq!(item_of(&job(one)).as_ref(), Some(one));
            let same = items.iter().filter(|other| job(other) == job(one)).count();
            assert_eq!(same, 1, "{one}");
        }
    }
}
