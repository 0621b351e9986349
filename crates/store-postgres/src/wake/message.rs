//! The format of a notification: its sender and its topics.

use tidelock_store::{QueueName, RecordKey, Topic};

/// The most bytes of topics in a notification; PostgreSQL allows less than 8,000, including the
/// sender.
pub(super) const LONGEST: usize = 7_000;

/// Stands for any change.
const EVERYTHING: &str = "*";

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Topics(Vec<Topic>),
    Everything,
}

/// One line for the sender, then one for each topic. Names contain no line ends.
pub(super) fn write(sender: &str, changed: &Changed) -> String {
    let mut message = sender.to_owned();
    let mut add = |kind: &str, name: &str| message.extend(["\n", kind, name]);
    match changed {
        Changed::Topics(topics) => topics.iter().map(line).for_each(|(kind, name)| add(kind, name)),
        Changed::Everything => add(EVERYTHING, ""),
    }
    message
}

/// The bytes of a topic.
pub(super) fn length(topic: &Topic) -> usize {
    let (kind, name) = line(topic);
    1 + kind.len() + name.len()
}

fn line(topic: &Topic) -> (&str, &str) {
    match topic {
        Topic::Log => ("log", ""),
        Topic::Record(key) => ("record ", key.as_str()),
        Topic::Queue(queue) => ("queue ", queue.as_str()),
    }
}

/// Parses another process's message; none if it is `own`.
pub(super) fn read(own: &str, message: &str) -> Option<Changed> {
    let mut lines = message.lines();
    if lines.next() == Some(own) {
        return None;
    }
    // It may be from a newer version, or a manual request to poll.
    Some(lines.map(read_topic).collect::<Option<_>>().map_or(Changed::Everything, Changed::Topics))
}

fn read_topic(line: &str) -> Option<Topic> {
    match line.split_once(' ') {
        None => (line == "log").then_some(Topic::Log),
        Some(("record", key)) => RecordKey::new(key).ok().map(Topic::Record),
        Some(("queue", queue)) => QueueName::new(queue).ok().map(Topic::Queue),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Topic {
        Topic::Queue(QueueName::new(name).unwrap())
    }

    #[test]
    fn a_message_says_what_changed() {
        let changed = Changed::Topics(vec![
            Topic::Log,
            queue("mail out"),
            Topic::Record(RecordKey::new("a b").unwrap()),
        ]);
        let message = write("me", &changed);
        assert_eq!(read("you", &message), Some(changed));
        assert_eq!(read("me", &message), None);
    }

    #[test]
    fn a_message_that_names_nothing_says_that_anything_may_have_changed() {
        let message = write("me", &Changed::Everything);
        assert_eq!(read("you", &message), Some(Changed::Everything));
        assert_eq!(read("me", &message), None);
    }

    #[test]
    fn a_message_is_as_long_as_its_topics_say() {
        let topics = vec![Topic::Log, queue("q"), Topic::Record(RecordKey::new("ä").unwrap())];
        let length: usize = topics.iter().map(length).sum();
        assert_eq!(write("me", &Changed::Topics(topics)).len(), "me".len() + length);
    }
}
