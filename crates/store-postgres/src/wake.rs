//! Signals: to those who wait in this process at once, to other processes by notification.
//!
//! A notification is sent after the commit and never inside it, because a transaction that notifies takes a lock that the
//! whole database shares. What many commits have to tell within a few milliseconds is told once. Whoever listens has a
//! connection of its own, made anew whenever it is lost; after that, and from time to time anyway, everybody who waits is
//! woken to look, since what was told meanwhile was missed. Without notifications that alone makes everything work.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_store::{QueueName, RecordKey, Signal, Signals, Topic};
use tokio::sync::{Notify as Bell, mpsc};
use tokio::time::timeout;
use tokio_postgres::Notification;
use tokio_postgres::types::Type;

use crate::link::Place;
use crate::open::{Notify, PostgresOptions, Prepare};
use crate::session::Session;
use crate::statement::Statement;

/// The least time between two notifications that one process sends.
const THROTTLE: Duration = Duration::from_millis(10);

/// The longest notification that is sent; PostgreSQL takes less than 8,000 bytes.
const LONGEST: usize = 7_000;

/// Says that anything may have changed.
const EVERYTHING: &str = "*";

static NOTIFY: Statement = Statement::new("SELECT pg_notify($1, $2)", &[Type::TEXT, Type::TEXT]);

/// Whom to wake, and how.
#[derive(Debug, Clone)]
pub(crate) struct Wakes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    signals: Signals,
    place: Arc<Place>,
    notify: Notify,
    poll_interval: Duration,
    /// What other processes have not been told yet.
    news: Mutex<HashSet<Topic>>,
    /// Rung when there is news, and when all ends.
    bell: Bell,
    /// Rung when all ends.
    closed: Bell,
}

impl Wakes {
    /// Starts the task that listens and tells; it ends when the store is closed.
    pub(crate) async fn start(place: Arc<Place>, options: &PostgresOptions) -> Self {
        let shared = Arc::new(Shared {
            signals: Signals::default(),
            place,
            // Behind a proxy that gives every transaction another connection, nobody would hear anything.
            notify: if options.prepare == Prepare::Never { Notify::Never } else { options.notify },
            poll_interval: options.poll_interval,
            news: Mutex::default(),
            bell: Bell::new(),
            closed: Bell::new(),
        });
        tokio::spawn(poll(shared.clone()));
        let mut teller = Teller { shared: shared.clone(), name: own_name(), ear: None };
        // Whoever waits from now on misses nothing for want of a connection.
        teller.listen().await;
        tokio::spawn(teller.serve());
        Self { shared }
    }

    pub(crate) fn signal(&self, topic: Topic) -> Signal {
        self.shared.signals.signal(topic)
    }

    /// These have changed, durably.
    pub(crate) fn written(&self, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.shared.signals.notify(&topics);
        if self.shared.notify == Notify::Listen {
            self.shared.news.lock().unwrap_or_else(PoisonError::into_inner).extend(topics);
            self.shared.bell.notify_one();
        }
    }

    /// Everything ends: nobody shall wait in vain.
    pub(crate) fn close(&self) {
        self.shared.signals.notify_all();
        self.shared.bell.notify_one();
        self.shared.closed.notify_one();
    }
}

impl Shared {
    fn has_news(&self) -> bool {
        !self.news.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_news(&self) -> HashSet<Topic> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn channel(&self) -> String {
        format!("tidelock_{}", self.place.schema)
    }
}

/// Wakes everybody from time to time. A task of its own, because whatever is told or heard may take long, or come so often
/// that nothing else would ever have its turn.
async fn poll(shared: Arc<Shared>) {
    while !shared.place.is_closed() {
        if timeout(shared.poll_interval, shared.closed.notified()).await.is_err() {
            shared.signals.notify_all();
        }
    }
}

/// A connection that listens, and over which others are told.
struct Ear {
    session: Arc<Session>,
    heard: mpsc::UnboundedReceiver<Notification>,
}

/// One process among those on this store.
struct Teller {
    shared: Arc<Shared>,
    /// Tells what this process said from what others did.
    name: String,
    ear: Option<Ear>,
}

fn own_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

impl Teller {
    async fn serve(mut self) {
        while !self.shared.place.is_closed() {
            self.listen().await;
            self.tell().await;
            self.hear().await;
        }
    }

    /// Makes sure that there is a connection.
    async fn listen(&mut self) {
        if self.ear.as_ref().is_some_and(|ear| ear.session.is_closed()) {
            self.ear = None;
        }
        if self.ear.is_some() || self.shared.notify == Notify::Never {
            return;
        }
        match connect(&self.shared).await {
            Ok(ear) => self.ear = Some(ear),
            Err(error) => tracing::debug!(%error, "no connection for notifications; polling goes on"),
        }
        // Listen first, then look: what was written before could not be heard.
        self.shared.signals.notify_all();
    }

    async fn tell(&mut self) {
        let Some(ear) = &self.ear else { return };
        let news = self.shared.take_news();
        if news.is_empty() {
            return;
        }
        let message = write_message(&self.name, &news);
        // A hint that is lost is made up for by polling.
        let _ = ear.session.query(&NOTIFY, &[&self.shared.channel(), &message]).await;
        tokio::time::sleep(THROTTLE).await;
    }

    /// Waits until there is something to do.
    async fn hear(&mut self) {
        if self.shared.has_news() && self.ear.is_some() {
            return;
        }
        tokio::select! {
            heard = next_heard(&mut self.ear) => if let Some(notification) = heard {
                self.pass_on(&notification);
            },
            () = self.shared.bell.notified() => {}
            // Without a connection, it is time to try again.
            () = tokio::time::sleep(self.shared.poll_interval) => {}
        }
    }

    fn pass_on(&self, notification: &Notification) {
        match read_message(&self.name, notification.payload()) {
            Heard::Own => {}
            Heard::Topics(topics) => self.shared.signals.notify(&topics),
            Heard::Everything => self.shared.signals.notify_all(),
        }
    }
}

/// Waits for a notification; for ever, if nobody listens.
async fn next_heard(ear: &mut Option<Ear>) -> Option<Notification> {
    match ear {
        Some(ear) => ear.heard.recv().await,
        None => std::future::pending().await,
    }
}

async fn connect(shared: &Shared) -> tidelock_store::Result<Ear> {
    let (to, heard) = mpsc::unbounded_channel();
    let session = shared.place.enter(Some(to)).await?;
    // A notification is a transaction like any other; nobody shall wait for the disk on account of a hint.
    session.execute("SET synchronous_commit = off").await.map_err(crate::error::failed)?;
    session.execute(&format!("LISTEN {}", shared.channel())).await.map_err(crate::error::failed)?;
    Ok(Ear { session, heard })
}

/// What a notification says.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Own,
    Topics(Vec<Topic>),
    Everything,
}

/// One line for the sender, then one for each topic. Names hold no line ends.
fn write_message(name: &str, topics: &HashSet<Topic>) -> String {
    let mut message = name.to_owned();
    for topic in topics {
        message.push('\n');
        match topic {
            Topic::Log => message.push_str("log"),
            Topic::Record(key) => message.extend(["record ", key.as_str()]),
            Topic::Queue(queue) => message.extend(["queue ", queue.as_str()]),
        }
        if message.len() > LONGEST {
            return format!("{name}\n{EVERYTHING}");
        }
    }
    message
}

fn read_message(own: &str, message: &str) -> Heard {
    let mut lines = message.lines();
    if lines.next() == Some(own) {
        return Heard::Own;
    }
    match lines.map(read_topic).collect::<Option<_>>() {
        Some(topics) => Heard::Topics(topics),
        // From a newer version, or from somebody who only wants everybody to look.
        None => Heard::Everything,
    }
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
        let topics =
            HashSet::from([Topic::Log, queue("mail out"), Topic::Record(RecordKey::new("a b").unwrap())]);
        let message = write_message("me", &topics);
        let Heard::Topics(heard) = read_message("you", &message) else { panic!("{message}") };
        assert_eq!(HashSet::from_iter(heard), topics);
        assert_eq!(read_message("me", &message), Heard::Own);
    }

    #[test]
    fn a_message_that_would_be_too_long_says_that_anything_may_have_changed() {
        let topics = (0..100).map(|n| queue(&format!("{n}{}", "q".repeat(100)))).collect();
        let message = write_message("me", &topics);
        assert!(message.len() < 8_000);
        assert_eq!(read_message("you", &message), Heard::Everything);
    }
}
