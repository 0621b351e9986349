//! Keys of jobs: the only place that spells their record keys, and the queues of callers.

use std::fmt::Write;

use tidelock_store::{ItemKey, ItemRef, Priority, QueueName, RecordKey, Result, Timestamp, limits};
use uuid::Uuid;

const JOB: &str = "~job/";
const CONCURRENCY: &str = "~job-key/";
const LINE: &str = "~job-line/";

/// The longest concurrency key that is stored as it is.
const KEY_BYTES: usize = 64;

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

/// A concurrency key as it is stored: a part of other keys, which `/` would end.
pub(super) fn stored(concurrency_key: &str) -> String {
    let is_short = concurrency_key.len() <= KEY_BYTES && !concurrency_key.contains('/');
    match is_short && ItemKey::new(concurrency_key).is_ok() {
        true => concurrency_key.to_owned(),
        false => Uuid::new_v5(&Uuid::NAMESPACE_OID, concurrency_key.as_bytes()).to_string(),
    }
}

/// The record of a concurrency key.
pub(super) fn concurrency(queue: &QueueName, key: &str) -> RecordKey {
    RecordKey::new(format!("{CONCURRENCY}{}/{queue}/{key}", queue.as_str().len()))
        .expect("a stored key leaves room for this")
}

/// The queue of the callers of a queue's concurrency keys.
pub(super) fn line(queue: &QueueName) -> Result<QueueName> {
    QueueName::new(format!("{LINE}{queue}"))
}

/// The caller of a concurrency key.
pub(super) fn caller(queue: &QueueName, key: &str) -> ItemRef {
    let key = ItemKey::new(key).expect("a stored key is the key of an item");
    ItemRef::new(&line(queue).expect("it was checked with the limit"), &key)
}

/// The prefix of the places in a key's line.
pub(super) fn places(queue: &QueueName, key: &str) -> String {
    format!("{LINE}{}/{queue}/{key}/", queue.as_str().len())
}

/// A place in line: by priority, then by arrival.
pub(super) fn place(
    queue: &QueueName,
    key: &str,
    priority: Priority,
    arrival: Timestamp,
    job: &ItemRef,
) -> RecordKey {
    let behind = limits::PRIORITY - priority.get();
    let mut place = places(queue, key);
    write!(place, "{behind:03}{:020}/{}", arrival.micros(), job.key).expect("a string takes it");
    RecordKey::new(place).expect("a stored key and a job's leave room for this")
}

/// The key of the job at a place in line.
pub(super) fn job_of_place(place: &RecordKey) -> Option<String> {
    let (length, rest) = place.as_str().strip_prefix(LINE)?.split_once('/')?;
    let rest = rest.get(length.parse::<usize>().ok()?..)?.strip_prefix('/')?;
    let (_key, rest) = rest.split_once('/')?;
    rest.split_once('/').map(|(_order, job)| job.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_have_a_place_in_line_and_a_higher_priority_is_before() {
        let queue = QueueName::new("q/".repeat(56)).unwrap();
        let key = stored(&"k".repeat(KEY_BYTES));
        let now = Timestamp::from_micros(250_000_000_000_000_000).unwrap();
        let place_of = |job: &str, priority, now| {
            let job = ItemRef::new(&queue, &ItemKey::new(job).unwrap());
            place(&queue, &key, Priority::new(priority).unwrap(), now, &job)
        };
        let long = "j/".repeat(limits::ITEM_KEY_BYTES / 2);
        let first = place_of(&long, 100, now);
        assert_eq!(job_of_place(&first), Some(long));
        assert!(first.as_str().starts_with(&places(&queue, &key)));
        let order = [
            first,
            place_of("b", 0, Timestamp::from_micros(1).unwrap()),
            place_of("a", 0, now),
            place_of("a", -100, now),
        ];
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(caller(&queue, &key).key.as_str(), key);
    }

    #[test]
    fn any_text_is_a_concurrency_key() {
        for odd in ["", "a/b", "\0", &"x".repeat(1_000)] {
            let stored = stored(odd);
            assert!(ItemKey::new(stored.as_str()).is_ok() && !stored.contains('/'), "{odd:?}");
        }
        assert_ne!(stored("a/b"), stored("a/c"));
    }

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
