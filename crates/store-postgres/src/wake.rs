//! Change notification: waiters of this process are woken directly, other processes by NOTIFY.
//!
//! A notification is sent after the commit and never inside it, because a transaction that notifies
//! takes a lock shared by the whole database. Notifications of many commits within a few
//! milliseconds are coalesced. The listener has its own connection, and reconnects after a loss.
//! After that, and from time to time anyway, all waiters are woken to poll, since notifications in
//! the meantime were missed. Without notifications, polling alone makes everything work.

mod message;
mod notify_queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{ChangeHint, ChangeHints, Topic};
use tokio::sync::{Notify as TaskNotify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::Notification;
use tokio_postgres::types::ToSql;

use crate::connect::Connector;
use crate::connect::Session;
use crate::error::failed;
use crate::open::{Notify, PostgresOptions, Prepare};
use crate::statement::{Statement, statement};
use message::Changed;
use notify_queue::NotifyQueue;

/// The average pause before another attempt to connect.
const RETRY: Duration = Duration::from_secs(1);

static NOTIFY: Statement = statement!("SELECT pg_notify($1, $2)": TEXT, TEXT);

/// The waiters, and the way to other processes.
#[derive(Debug, Clone)]
pub(crate) struct Wakes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    signals: ChangeHints,
    connector: Arc<Connector>,
    notify: Notify,
    poll_interval: Duration,
    queue: Mutex<NotifyQueue>,
    /// Notified when the queue has something to send, and on close.
    wakeup: TaskNotify,
    /// Notified on close.
    closed: TaskNotify,
}

impl Wakes {
    /// Starts the task that listens and notifies; it ends when the store is closed.
    pub(crate) async fn start(connector: Arc<Connector>, options: &PostgresOptions) -> Self {
        let shared = Arc::new(Shared {
            signals: ChangeHints::default(),
            connector,
            // Behind a proxy in transaction mode, no notification would arrive.
            notify: if options.prepare == Prepare::Never { Notify::Never } else { options.notify },
            poll_interval: options.poll_interval,
            queue: Mutex::new(NotifyQueue::new(Instant::now())),
            wakeup: TaskNotify::new(),
            closed: TaskNotify::new(),
        });
        tokio::spawn(poll(shared.clone()));
        let mut notifier = Notifier { shared: shared.clone(), name: own_name(), listener: None };
        // From now on, no waiter misses a notification for lack of a connection.
        notifier.listen().await;
        tokio::spawn(notifier.serve());
        Self { shared }
    }

    pub(crate) fn signal(&self, topic: Topic) -> ChangeHint {
        self.shared.signals.signal(topic)
    }

    /// Reports topics that have changed durably.
    pub(crate) fn written(&self, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.shared.signals.notify(&topics);
        if self.shared.notify == Notify::Listen {
            self.shared.queue().add(topics, Instant::now());
            self.shared.wakeup.notify_one();
        }
    }

    /// Wakes all waiters and ends the tasks.
    pub(crate) fn close(&self) {
        self.shared.signals.notify_all();
        self.shared.wakeup.notify_one();
        self.shared.closed.notify_one();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, NotifyQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be something to send, or until the close.
    async fn until_due(&self) {
        while self.queue().is_empty() && !self.connector.is_closed() {
            self.wakeup.notified().await;
        }
        let next_check = self.queue().next_check();
        sleep_until(next_check).await;
    }

    /// Waits until the close.
    async fn end(&self) {
        while !self.connector.is_closed() {
            self.wakeup.notified().await;
        }
    }

    fn channel(&self) -> String {
        format!("tidelock_{}", self.connector.schema)
    }
}

/// Wakes all waiters from time to time. A separate task, because sending and receiving may take
/// long, or happen so often that nothing else would run.
async fn poll(shared: Arc<Shared>) {
    while !shared.connector.is_closed() {
        if timeout(shared.poll_interval, shared.closed.notified()).await.is_err() {
            shared.signals.notify_all();
        }
    }
}

/// A connection that listens, and that also sends notifications.
struct Listener {
    session: Arc<Session>,
    notifications: mpsc::UnboundedReceiver<Notification>,
}

/// The notifier of this process.
struct Notifier {
    shared: Arc<Shared>,
    /// Identifies this process's own notifications.
    name: String,
    listener: Option<Listener>,
}

/// Adds jitter, so that a server that was down does not meet all processes at the same moment again
/// and again.
fn apart(pause: Duration) -> Duration {
    pause / 2
        + pause.mul_f64(f64::from(uuid::Uuid::now_v7().as_u128() as u32) / f64::from(u32::MAX))
}

fn own_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

impl Notifier {
    async fn serve(mut self) {
        while !self.shared.connector.is_closed() {
            self.listen().await;
            match &mut self.listener {
                Some(listener) => tokio::select! {
                    notification = listener.notifications.recv() => self.handle(notification),
                    () = self.shared.until_due() => self.send().await,
                    // The connection may belong to an epoch that is over.
                    () = sleep(self.shared.poll_interval) => {}
                },
                None => tokio::select! {
                    () = self.shared.end() => {}
                    () = sleep(apart(RETRY)) => {}
                },
            }
        }
    }

    /// Makes sure that there is a connection.
    async fn listen(&mut self) {
        if self.listener.as_ref().is_some_and(|listener| listener.session.is_closed()) {
            self.listener = None;
        }
        if self.listener.is_some() || self.shared.notify == Notify::Never {
            return;
        }
        match connect(&self.shared).await {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                tracing::debug!(%error, "no connection for notifications; polling goes on");
            }
        }
        // Listen first, then poll: earlier writes could not be heard.
        self.shared.signals.notify_all();
    }

    /// Sends what is due. A lost hint is covered by polling. But a connection that does not answer
    /// will not deliver notifications either, and it must not delay a close.
    async fn send(&mut self) {
        let Some(listener) = &self.listener else { return };
        let Some(changed) = self.shared.queue().take(Instant::now()) else { return };
        let (channel, message) = (self.shared.channel(), message::write(&self.name, &changed));
        let with: [&(dyn ToSql + Sync); 2] = [&channel, &message];
        let sent =
            timeout(self.shared.connector.connect_timeout, listener.session.query(&NOTIFY, &with));
        let answered = tokio::select! {
            sent = sent => sent.is_ok(),
            () = self.shared.end() => false,
        };
        if !answered {
            listener.session.give_up();
            self.listener = None;
        }
    }

    /// Handles a notification; none means that the connection has ended.
    fn handle(&mut self, notification: Option<Notification>) {
        let Some(notification) = notification else {
            self.listener = None;
            return;
        };
        let Some(changed) = message::read(&self.name, notification.payload()) else { return };
        self.shared.queue().notified_by_other(&changed);
        match changed {
            Changed::Topics(topics) => self.shared.signals.notify(&topics),
            Changed::Everything => self.shared.signals.notify_all(),
        }
    }
}

async fn connect(shared: &Shared) -> tidelock_store::Result<Listener> {
    let (to, notifications) = mpsc::unbounded_channel();
    let session = shared.connector.enter(Some(to)).await?;
    // A notification is a transaction like any other; a hint need not wait for the disk.
    let listening = async {
        session.execute("SET synchronous_commit = off").await.map_err(failed)?;
        session.execute(&format!("LISTEN {}", shared.channel())).await.map_err(failed)
    };
    shared.connector.in_time(shared.connector.deadline(), listening).await?;
    Ok(Listener { session, notifications })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn processes_that_lost_their_connections_together_reconnect_at_different_times() {
        let pauses: HashSet<Duration> = (0..100).map(|_| apart(RETRY)).collect();
        assert!(pauses.len() > 50, "{pauses:?}");
        assert!(
            pauses.iter().all(|pause| (RETRY / 2..=RETRY * 3 / 2).contains(pause)),
            "{pauses:?}"
        );
    }
}
