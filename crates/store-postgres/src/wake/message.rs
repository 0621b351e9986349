//! What a notification says, and who said it.

use tidelock_store::{QueueName, RecordKey, Topic};

/// The longest notification that is sent; PostgreSQL takes less than 8,000 bytes.
const LONGEST: usize = 7_000;

/// More topics than this fit into no notification: each takes a line, and a topic with a name has at least seven bytes of it.
pub(super) const MOST_TOPICS: usize = LONGEST / 7;

/// Says that anything may have changed.
const EVERYTHING: &str = "*";

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Topics(Vec<Topic>),
    Everything,
}

/// One line for the sender, then one for each topic. Names hold no line ends.
pub(super) fn write(sender: &str, changed: &Changed) -> String {
    let everything = || format!("{sender}\n{EVERYTHING}");
    let Changed::Topics(topics) = changed else { return everything() };
    let mut message = sender.to_owned();
    for topic in topics {
        message.push('\n');
        match topic {
            Topic::Log => message.push_str("log"),
            Topic::Record(key) => message.extend(["record ", key.as_str()]),
            Topic::Queue(queue) => message.extend(["queue ", queue.as_str()]),
        }
        if message.len() > LONGEST {
            return everything();
        }
    }
    message
}

/// What somebody else said; nothing if it was `own`.
pub(super) fn read(own: &str, message: &str) -> Option<Changed> {
    let mut lines = message.lines();
    if lines.next() == Some(own) {
        return None;
    }
    // It may be from a newer version, or from somebody who only wants everybody to look.
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
    fn a_message_that_would_be_too_long_says_that_anything_may_have_changed() {
        let topics = (0..100).map(|n| queue(&format!("{n}{}", "q".repeat(100)))).collect();
        let message = write("me", &Changed::Topics(topics));
        assert!(message.len() < 8_000);
        assert_eq!(read("you", &message), Some(Changed::Everything));
    }

    #[test]
    fn more_than_the_most_topics_never_fit() {
        let topics = (0..=MOST_TOPICS).map(|_| queue("q")).collect();
        assert_eq!(read("you", &write("", &Changed::Topics(topics))), Some(Changed::Everything));
    }
}
