//! What other processes have not been told yet, and when they are.
//!
//! Every notification wakes everybody who listens. If each process told all it had at a pace of its
//! own, the work would grow with the square of their number. But whoever waits for a topic has just
//! been woken when another process told of it. So a topic that others tell of can wait, the longer
//! the more they do: together they tell about as often as one of them would alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tidelock_store::Topic;
use tokio::time::Instant;

use super::message::{self, Changed};

/// The least time between two notifications that a process sends.
const PACE: Duration = Duration::from_millis(10);

/// How many notifications of others a topic waits for at most.
const MOST_OTHERS: u32 = 10;

#[derive(Debug)]
pub(super) struct NotifyQueue {
    topics: HashMap<Topic, Untold>,
    /// How many bytes of a notification the topics take.
    length: usize,
    /// There were so many topics that they could not be named any more.
    everything: Option<Untold>,
    /// When it is time to look for what to tell.
    next_look: Instant,
}

/// Something that others have not been told of.
#[derive(Debug)]
struct Untold {
    since: Instant,
    /// How often others told of it since then.
    by_others: u32,
}

impl Untold {
    fn new(now: Instant) -> Self {
        Self { since: now, by_others: 0 }
    }

    /// Every one of the others has its turn first, and then this process.
    fn is_due(&self, now: Instant) -> bool {
        let turns = if self.by_others == 0 { 0 } else { self.by_others.min(MOST_OTHERS) + 1 };
        self.since + PACE * turns <= now
    }
}

impl NotifyQueue {
    pub(super) fn new(now: Instant) -> Self {
        Self { topics: HashMap::new(), length: 0, everything: None, next_look: now }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.everything.is_none()
    }

    /// When it is time to look for what to tell.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// These have changed.
    pub(super) fn add(&mut self, topics: Vec<Topic>, now: Instant) {
        if self.everything.is_some() {
            return;
        }
        for topic in topics {
            if let Entry::Vacant(place) = self.topics.entry(topic) {
                self.length += message::length(place.key());
                place.insert(Untold::new(now));
            }
        }
        if self.length > message::LONGEST {
            self.topics.clear();
            self.length = 0;
            self.everything = Some(Untold::new(now));
        }
    }

    /// Another process told of this.
    pub(super) fn told_by_another(&mut self, changed: &Changed) {
        let count = |untold: &mut Untold| untold.by_others += 1;
        match changed {
            Changed::Topics(topics) => topics.iter().for_each(|topic| {
                self.topics.get_mut(topic).into_iter().for_each(count);
            }),
            Changed::Everything => {
                self.topics.values_mut().chain(&mut self.everything).for_each(count);
            }
        }
    }

    /// Takes what is to be told now, if anything is.
    pub(super) fn take(&mut self, now: Instant) -> Option<Changed> {
        self.next_look = now + PACE;
        if self.everything.take_if(|untold| untold.is_due(now)).is_some() {
            return Some(Changed::Everything);
        }
        let due: Vec<Topic> = self
            .topics
            .extract_if(|_, untold| untold.is_due(now))
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

    fn queue(name: &str) -> Topic {
        Topic::Queue(QueueName::new(name).unwrap())
    }

    fn told(topics: &[Topic]) -> Option<Changed> {
        Some(Changed::Topics(topics.to_vec()))
    }

    #[test]
    fn what_nobody_else_tells_of_is_told_at_the_next_look() {
        let start = Instant::now();
        let mut news = NotifyQueue::new(start);
        news.add(vec![Topic::Log, Topic::Log], start);
        assert_eq!((news.next_look(), news.take(start)), (start, told(&[Topic::Log])));
        assert!(news.is_empty());
        assert_eq!((news.next_look(), news.take(start)), (start + PACE, None));
    }

    #[test]
    fn what_others_tell_of_waits_the_longer_the_more_they_do_and_the_rest_does_not() {
        let start = Instant::now();
        let mut news = NotifyQueue::new(start);
        news.add(vec![Topic::Log, queue("mine")], start);
        (0..3).for_each(|_| {
            news.told_by_another(&Changed::Topics(vec![Topic::Log, queue("theirs")]));
        });
        assert_eq!(news.take(start), told(&[queue("mine")]));
        assert_eq!(news.take(start + PACE * 3), None);
        assert!(!news.is_empty());
        assert_eq!(news.take(start + PACE * 4), told(&[Topic::Log]));
    }

    #[test]
    fn nothing_waits_for_ever() {
        let start = Instant::now();
        let mut news = NotifyQueue::new(start);
        news.add(vec![Topic::Log], start);
        (0..10_000).for_each(|_| news.told_by_another(&Changed::Everything));
        assert_eq!(news.take(start + PACE * (MOST_OTHERS + 1)), told(&[Topic::Log]));
    }

    #[test]
    fn what_fits_is_named_and_more_than_that_is_not_kept() {
        let start = Instant::now();
        let mut news = NotifyQueue::new(start);
        for nth in 0..10_000 {
            news.add(vec![queue(&format!("{nth}{}", "q".repeat(100)))], start);
            assert!(news.length <= message::LONGEST && news.topics.len() <= message::LONGEST / 100);
        }
        assert_eq!(news.take(start), Some(Changed::Everything));
        assert!(news.is_empty());
        news.add(vec![queue("q")], start);
        assert_eq!(news.take(start), told(&[queue("q")]));
        assert_eq!(news.length, 0);
    }

    #[test]
    fn what_cannot_be_named_waits_too_if_others_say_the_same() {
        let start = Instant::now();
        let mut news = NotifyQueue::new(start);
        news.add((0..10_000).map(|nth| queue(&nth.to_string())).collect(), start);
        news.told_by_another(&Changed::Topics(vec![queue("1")]));
        (0..3).for_each(|_| news.told_by_another(&Changed::Everything));
        assert_eq!(news.take(start + PACE * 3), None);
        assert!(!news.is_empty());
        assert_eq!(news.take(start + PACE * 4), Some(Changed::Everything));
    }
}
