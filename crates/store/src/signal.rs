//! Change hints: a signal to wait for instead of polling in a loop.
//!
//! A signal is only a hint: it may come late, twice or not at all (from another process, for
//! example), so a waiter also polls from time to time. It can never fail or delay a commit. Changes
//! between two waits are not missed: a signal taken before the first read is ready if anything
//! changed since.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::names::{QueueName, RecordKey};

/// The subject of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    /// There are new events.
    Log,
    /// This record was written.
    Record(RecordKey),
    /// This queue may have something to lease, now or at another time than before.
    Queue(QueueName),
}

/// Becomes ready when its topic changed.
#[derive(Debug)]
pub struct ChangeHint {
    changes: watch::Receiver<()>,
    /// Unregisters this waiter on drop; must be declared after the receiver.
    _place: Place,
}

impl ChangeHint {
    /// Waits until the topic may have changed since the last wait, or since the signal was taken.
    ///
    /// When the store is closed there is one last signal, and then none: wait with a timeout, and
    /// poll.
    ///
    /// Cancel safe: a change between two waits is seen by the next wait.
    pub async fn wait(&mut self) {
        if self.changes.changed().await.is_err() {
            // The store is closed; the waiter's own timeout ends the wait.
            std::future::pending::<()>().await;
        }
    }
}

/// The registry of waiters; every store has one.
#[derive(Debug, Clone, Default)]
pub struct ChangeHints {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of waiters, so that a commit without any takes no lock.
    waiters: AtomicUsize,
    topics: Mutex<HashMap<Topic, watch::Sender<()>>>,
}

#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    topic: Topic,
}

impl ChangeHints {
    /// Takes a signal for this topic.
    pub fn signal(&self, topic: Topic) -> ChangeHint {
        let mut topics = self.shared.lock();
        self.shared.waiters.fetch_add(1, Ordering::SeqCst);
        let changes =
            topics.entry(topic.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        ChangeHint { changes, _place: Place { shared: self.shared.clone(), topic } }
    }

    /// Whether there is any waiter.
    pub fn any_waiter(&self) -> bool {
        self.shared.waiters.load(Ordering::SeqCst) > 0
    }

    /// Notifies the waiters of these topics.
    pub fn notify<'a>(&self, changed: impl IntoIterator<Item = &'a Topic>) {
        if !self.any_waiter() {
            return;
        }
        let topics = self.shared.lock();
        for sender in changed.into_iter().filter_map(|topic| topics.get(topic)) {
            sender.send_replace(());
        }
    }

    /// Notifies every waiter: something changed and it is not known what.
    pub fn notify_all(&self) {
        for sender in self.shared.lock().values() {
            sender.send_replace(());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, watch::Sender<()>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut topics = self.shared.lock();
        self.shared.waiters.fetch_sub(1, Ordering::SeqCst);
        // The receiver is declared before this field, and so is already dropped.
        if topics.get(&self.topic).is_some_and(|sender| sender.receiver_count() == 0) {
            topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    fn ready(signal: &mut ChangeHint) -> bool {
        let wait = std::pin::pin!(signal.wait());
        matches!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn what_happens_between_two_waits_is_not_missed() {
        let signals = ChangeHints::default();
        let mut log = signals.signal(Topic::Log);
        assert!(!ready(&mut log), "nothing happened yet");
        signals.notify([&Topic::Log]);
        signals.notify([&Topic::Log]);
        assert!(ready(&mut log));
        assert!(!ready(&mut log), "both were seen at once");
        signals.notify([&Topic::Queue(QueueName::new("mail").unwrap())]);
        assert!(!ready(&mut log), "another topic");
    }

    #[test]
    fn topics_without_waiters_are_forgotten() {
        let signals = ChangeHints::default();
        let (first, mut second) = (signals.signal(Topic::Log), signals.signal(Topic::Log));
        drop(first);
        signals.notify_all();
        assert!(ready(&mut second), "the other waiter is still there");
        drop(second);
        assert!(!signals.any_waiter());
        assert!(signals.shared.lock().is_empty());
    }
}
