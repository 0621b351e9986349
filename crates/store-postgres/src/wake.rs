//! Signals: to those who wait in this process at once, to other processes by notification.
//!
//! A notification is sent after the commit and never inside it, because a transaction that notifies
//! takes a lock that the whole database shares. What many commits have to tell within a few
//! milliseconds is told once. Whoever listens has a connection of its own, made anew whenever it is
//! lost; after that, and from time to time anyway, everybody who waits is woken to look, since what
//! was told meanwhile was missed. Without notifications that alone makes everything work.

mod message;
mod notify_queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{ChangeHint, ChangeHints, Topic};
use tokio::sync::{Notify as Bell, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::Notification;
use tokio_postgres::types::{ToSql, Type};

use crate::connector::Connector;
use crate::error::failed;
use crate::open::{Notify, PostgresOptions, Prepare};
use crate::session::Session;
use crate::statement::Statement;
use message::Changed;
use notify_queue::NotifyQueue;

/// How long to wait, on average, before a connection that could not be made is tried again.
const RETRY: Duration = Duration::from_secs(1);

static NOTIFY: Statement = Statement::new("SELECT pg_notify($1, $2)", &[Type::TEXT, Type::TEXT]);

/// Whom to wake, and how.
#[derive(Debug, Clone)]
pub(crate) struct Wakes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    signals: ChangeHints,
    place: Arc<Connector>,
    notify: Notify,
    poll_interval: Duration,
    news: Mutex<NotifyQueue>,
    /// Rung when there is news, and when all ends.
    bell: Bell,
    /// Rung when all ends.
    closed: Bell,
}

impl Wakes {
    /// Starts the task that listens and tells; it ends when the store is closed.
    pub(crate) async fn start(place: Arc<Connector>, options: &PostgresOptions) -> Self {
        let shared = Arc::new(Shared {
            signals: ChangeHints::default(),
            place,
            // Behind a proxy that gives every transaction another connection, nobody would hear
            // anything.
            notify: if options.prepare == Prepare::Never { Notify::Never } else { options.notify },
            poll_interval: options.poll_interval,
            news: Mutex::new(NotifyQueue::new(Instant::now())),
            bell: Bell::new(),
            closed: Bell::new(),
        });
        tokio::spawn(poll(shared.clone()));
        let mut teller = Notifier { shared: shared.clone(), name: own_name(), ear: None };
        // Whoever waits from now on misses nothing for want of a connection.
        teller.listen().await;
        tokio::spawn(teller.serve());
        Self { shared }
    }

    pub(crate) fn signal(&self, topic: Topic) -> ChangeHint {
        self.shared.signals.signal(topic)
    }

    /// These have changed, durably.
    pub(crate) fn written(&self, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.shared.signals.notify(&topics);
        if self.shared.notify == Notify::Listen {
            self.shared.news().add(topics, Instant::now());
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
    fn news(&self) -> MutexGuard<'_, NotifyQueue> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be something to tell, or all has ended.
    async fn time_to_tell(&self) {
        while self.news().is_empty() && !self.place.is_closed() {
            self.bell.notified().await;
        }
        let next_look = self.news().next_look();
        sleep_until(next_look).await;
    }

    /// Waits until all has ended.
    async fn end(&self) {
        while !self.place.is_closed() {
            self.bell.notified().await;
        }
    }

    fn channel(&self) -> String {
        format!("tidelock_{}", self.place.schema)
    }
}

/// Wakes everybody from time to time. A task of its own, because whatever is told or heard may take
/// long, or come so often that nothing else would ever have its turn.
async fn poll(shared: Arc<Shared>) {
    while !shared.place.is_closed() {
        if timeout(shared.poll_interval, shared.closed.notified()).await.is_err() {
            shared.signals.notify_all();
        }
    }
}

/// A connection that listens, and over which others are told.
struct Listener {
    session: Arc<Session>,
    heard: mpsc::UnboundedReceiver<Notification>,
}

/// One process among those on this store.
struct Notifier {
    shared: Arc<Shared>,
    /// Tells what this process said from what others did.
    name: String,
    ear: Option<Listener>,
}

/// About so long, and not as long as the others: a server that was away shall not meet all
/// processes at the same moment, again and again.
fn apart(pause: Duration) -> Duration {
    pause / 2
        + pause.mul_f64(f64::from(uuid::Uuid::now_v7().as_u128() as u32) / f64::from(u32::MAX))
}

fn own_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

impl Notifier {
    async fn serve(mut self) {
        while !self.shared.place.is_closed() {
            self.listen().await;
            match &mut self.ear {
                Some(ear) => tokio::select! {
                    heard = ear.heard.recv() => self.pass_on(heard),
                    () = self.shared.time_to_tell() => self.tell().await,
                    // The connection may have become one of an epoch that is over.
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
        if self.ear.as_ref().is_some_and(|ear| ear.session.is_closed()) {
            self.ear = None;
        }
        if self.ear.is_some() || self.shared.notify == Notify::Never {
            return;
        }
        match connect(&self.shared).await {
            Ok(ear) => self.ear = Some(ear),
            Err(error) => {
                tracing::debug!(%error, "no connection for notifications; polling goes on");
            }
        }
        // Listen first, then look: what was written before could not be heard.
        self.shared.signals.notify_all();
    }

    /// A hint that is lost is made up for by polling. But a connection that does not answer will
    /// not tell what others say either, and nobody may be kept from closing by it.
    async fn tell(&mut self) {
        let Some(ear) = &self.ear else { return };
        let Some(changed) = self.shared.news().take(Instant::now()) else { return };
        let (channel, message) = (self.shared.channel(), message::write(&self.name, &changed));
        let with: [&(dyn ToSql + Sync); 2] = [&channel, &message];
        let told = timeout(self.shared.place.connect_timeout, ear.session.query(&NOTIFY, &with));
        let answered = tokio::select! {
            told = told => told.is_ok(),
            () = self.shared.end() => false,
        };
        if !answered {
            ear.session.give_up();
            self.ear = None;
        }
    }

    /// Passes on what was heard; if that is nothing, the connection has ended.
    fn pass_on(&mut self, heard: Option<Notification>) {
        let Some(notification) = heard else {
            self.ear = None;
            return;
        };
        let Some(changed) = message::read(&self.name, notification.payload()) else { return };
        self.shared.news().told_by_another(&changed);
        match changed {
            Changed::Topics(topics) => self.shared.signals.notify(&topics),
            Changed::Everything => self.shared.signals.notify_all(),
        }
    }
}

async fn connect(shared: &Shared) -> tidelock_store::Result<Listener> {
    let (to, heard) = mpsc::unbounded_channel();
    let session = shared.place.enter(Some(to)).await?;
    // A notification is a transaction like any other; nobody shall wait for the disk on account of
    // a hint.
    let listening = async {
        session.execute("SET synchronous_commit = off").await.map_err(failed)?;
        session.execute(&format!("LISTEN {}", shared.channel())).await.map_err(failed)
    };
    shared.place.in_time(shared.place.deadline(), listening).await?;
    Ok(Listener { session, heard })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn those_who_lost_their_connections_together_do_not_come_back_together() {
        let pauses: HashSet<Duration> = (0..100).map(|_| apart(RETRY)).collect();
        assert!(pauses.len() > 50, "{pauses:?}");
        assert!(
            pauses.iter().all(|pause| (RETRY / 2..=RETRY * 3 / 2).contains(pause)),
            "{pauses:?}"
        );
    }
}
