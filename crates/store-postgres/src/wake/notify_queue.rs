//! The notify queue: changes that other processes have not been notified of, and when they will be.
//!
//! Every notification wakes every listener. If each process notified at its own pace, the work
//! would grow with the square of their number. But the waiters of a topic are woken when any
//! process notifies of it. So a topic that other processes also notify of can wait, the longer the
//! more of them do: together they notify about as often as one of them would alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tidelock_store::Topic;
use tokio::time::Instant;

use super::message::{self, Changed};

/// The least time between two notifications of a process.
const PACE: Duration = Duration::from_millis(10);

/// The most notifications of others that a topic waits for.
const MOST_OTHERS: u32 = 10;

#[derive(Debug)]
pub(super) struct NotifyQueue {
    topics: HashMap<Topic, Pending>,
    /// The bytes of the queued topics in a notification.
    length: usize,
    /// There were too many topics to name.
    everything: Option<Pending>,
    /// When to check the queue next.
    next_check: Instant,
}

/// A change that was not sent yet.
#[derive(Debug)]
struct Pending {
    since: Instant,
    /// How often others notified of it since then.
    by_others: u32,
}

impl Pending {
    fn new(now: Instant) -> Self {
        Self { since: now, by_others: 0 }
    }

    /// Each of the others has its turn first, and then this process.
    fn is_due(&self, now: Instant) -> bool {
        let turns = if self.by_others == 0 { 0 } else { self.by_others.min(MOST_OTHERS) + 1 };
        self.since + PACE * turns <= now
    }
}

impl NotifyQueue {
    pub(super) fn new(now: Instant) -> Self {
        Self { topics: HashMap::new(), length: 0, everything: None, next_check: now }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.everything.is_none()
    }

    /// When to check the queue next.
    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Adds changed topics.
    pub(super) fn add(&mut self, topics: Vec<Topic>, now: Instant) {
        if self.everything.is_some() {
            return;
        }
        for topic in topics {
            if let Entry::Vacant(place) = self.topics.entry(topic) {
                self.length += message::length(place.key());
                place.insert(Pending::new(now));
            }
        }
        if self.length > message::LONGEST {
            self.topics.clear();
            self.length = 0;
            self.everything = Some(Pending::new(now));
        }
    }

    /// Records another process's notification.
    pub(super) fn notified_by_other(&mut self, changed: &Changed) {
        let count = |pending: &mut Pending| pending.by_others += 1;
        match changed {
            Changed::Topics(topics) => topics.iter().for_each(|topic| {
                self.topics.get_mut(topic).into_iter().for_each(count);
            }),
            Changed::Everything => {
                self.topics.values_mut().chain(&mut self.everything).for_each(count);
            }
        }
    }

    /// Takes what is due, if anything is.
    pub(super) fn take(&mut self, now: Instant) -> Option<Changed> {
        self.next_check = now + PACE;
        if self.everything.take_if(|pending| pending.is_due(now)).is_some() {
            return Some(Changed::Everything);
        }
        let due: Vec<Topic> = self
            .topics
            .extract_if(|_, pending| pending.is_due(now))
            .map(|(topic, _)| topic)
            .collect();
        self.length -= due.iter().map(message::length).sum::<usize>();
        (!due.is_empty()).then_some(Changed::Topics(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::QueueName;

    fn topic(name: &str) -> Topic {
        Topic::Queue(QueueName::new(name).unwrap())
    }

    fn changed(topics: &[Topic]) -> Option<Changed> {
        Some(Changed::Topics(topics.to_vec()))
    }

    #[test]
    fn a_topic_of_this_process_only_is_sent_at_the_next_check() {
        let start = Instant::now();
        let mut queue = NotifyQueue::new(start);
        queue.add(vec![Topic::Log, Topic::Log], start);
        assert_eq!((queue.next_check(), queue.take(start)), (start, changed(&[Topic::Log])));
        assert!(queue.is_empty());
        assert_eq!((queue.next_check(), queue.take(start)), (start + PACE, None));
    }

    #[test]
    fn a_topic_that_others_send_waits_longer_and_the_rest_does_not() {
        let start = Instant::now();
        let mut queue = NotifyQueue::new(start);
        queue.add(vec![Topic::Log, topic("mine")], start);
        (0..3).for_each(|_| {
            queue.notified_by_other(&Changed::Topics(vec![Topic::Log, topic("theirs")]));
        });
        assert_eq!(queue.take(start), changed(&[topic("mine")]));
        assert_eq!(queue.take(start + PACE * 3), None);
        assert!(!queue.is_empty());
        assert_eq!(queue.take(start + PACE * 4), changed(&[Topic::Log]));
    }

    #[test]
    fn every_topic_is_sent_in_the_end() {
        let start = Instant::now();
        let mut queue = NotifyQueue::new(start);
        queue.add(vec![Topic::Log], start);
        (0..10_000).for_each(|_| queue.notified_by_other(&Changed::Everything));
        assert_eq!(queue.take(start + PACE * (MOST_OTHERS + 1)), changed(&[Topic::Log]));
    }

    #[test]
    fn topics_that_fit_are_named_and_more_are_not_kept() {
        let start = Instant::now();
        let mut queue = NotifyQueue::new(start);
        for nth in 0..10_000 {
            queue.add(vec![topic(&format!("{nth}{}", "q".repeat(100)))], start);
            assert!(
                queue.length <= message::LONGEST && queue.topics.len() <= message::LONGEST / 100
            );
        }
        assert_eq!(queue.take(start), Some(Changed::Everything));
        assert!(queue.is_empty());
        queue.add(vec![topic("q")], start);
        assert_eq!(queue.take(start), changed(&[topic("q")]));
        assert_eq!(queue.length, 0);
    }

    #[test]
    fn what_cannot_be_named_also_waits_for_others() {
        let start = Instant::now();
        let mut queue = NotifyQueue::new(start);
        queue.add((0..10_000).map(|nth| topic(&nth.to_string())).collect(), start);
        queue.notified_by_other(&Changed::Topics(vec![topic("1")]));
        (0..3).for_each(|_| queue.notified_by_other(&Changed::Everything));
        assert_eq!(queue.take(start + PACE * 3), None);
        assert!(!queue.is_empty());
        assert_eq!(queue.take(start + PACE * 4), Some(Changed::Everything));
    }
}
