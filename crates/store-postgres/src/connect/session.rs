//! A database session: one connection and its prepared statements.

mod backlog;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Notification, Row};

use crate::connect::identity::Epoch;
use crate::connect::tls::Connection;
use crate::open::Prepare;
use crate::statement::{Statement, in_schema};
use backlog::Backlog;

type PgResult<T> = Result<T, tokio_postgres::Error>;

/// The parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Planner settings for our own connections. They affect speed, not correctness, and are left out
/// behind a proxy. (Rows that are taken one by one, by an index, are also locked in the order of
/// their names. Statements that also run behind a proxy ensure that themselves.)
///
/// Every statement of this crate looks rows up by an index. A plan made while a table was small
/// would scan the whole table, and be kept while the table grows.
///
/// The isolation level is set too, whatever the role's or the database's default is: with READ
/// COMMITTED, changed rows are read again. A stricter level raises an error (40001), for which a
/// commit is retried; but leases and renewals would be refused without need.
const SESSION_SETTINGS: [(&str, &str); 6] = [
    ("default_transaction_isolation", "'read committed'"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// Our own transactions never pause between two statements, unless this process is stopped or its
/// machine is down; then the rows that they lock, and the feed, must not wait until it is noticed.
/// A limit that the server sets for every session stays.
fn end_after(pause: Duration) -> String {
    format!(
        "SELECT set_config('{IDLE_LIMIT}', '{}ms', false) WHERE current_setting('{IDLE_LIMIT}') = '0'; ",
        pause.as_millis()
    )
}

const IDLE_LIMIT: &str = "idle_in_transaction_session_timeout";

/// Later statements see what others committed in the meantime, whatever the role's or the
/// database's default is.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A connection that callers share: requests are pipelined and answered in order.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    schema: Arc<str>,
    prepare: Prepare,
    prepared: Mutex<HashMap<&'static str, tokio_postgres::Statement>>,
    /// The number of warnings from the server.
    warnings: Arc<AtomicU64>,
    /// None until the connection is known to lead to the store.
    epoch: Option<Epoch>,
    backlog: Backlog,
    given_up: AtomicBool,
    /// Notified when the session is closed.
    end: Arc<Notify>,
}

impl Session {
    /// Starts a session on a new connection; the server's notifications go to `notifications`.
    pub(crate) async fn start(
        client: Client,
        connection: Connection,
        schema: Arc<str>,
        prepare: Prepare,
        notifications: Option<mpsc::UnboundedSender<Notification>>,
        longest_pause: Duration,
    ) -> PgResult<Self> {
        let (warnings, end) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let driven = drive(connection, warnings.clone(), notifications);
        let given_up = end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = driven => {}
                () = given_up.notified() => {}
            }
        });
        if prepare == Prepare::Always {
            client.batch_execute(&(ours("SET") + &end_after(longest_pause))).await?;
        }
        Ok(Self {
            client,
            schema,
            prepare,
            prepared: Mutex::default(),
            warnings,
            epoch: None,
            backlog: Backlog::default(),
            given_up: AtomicBool::new(false),
            end,
        })
    }

    /// Ties the session to this epoch: it can be used for as long as the epoch lasts.
    pub(crate) fn belongs_to(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    /// Whether it cannot be used any more: the connection was lost, or leads to a server that was
    /// replaced.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
            || self.given_up.load(Ordering::Relaxed)
            || self.epoch.as_ref().is_some_and(Epoch::is_over)
    }

    /// Closes the connection immediately. Requests in flight fail as lost.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }

    /// Whether the server has yet to answer abandoned requests.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog.is_any()
    }

    /// Whether there are so many of them that nothing should be sent before it has answered.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.backlog.is_long()
    }

    /// Waits until all earlier requests are answered.
    pub(crate) async fn catch_up(&self) -> PgResult<()> {
        let waiting = self.backlog.ask();
        let answer = self.client.batch_execute("").await;
        waiting.answered();
        answer
    }

    /// The number of warnings so far. Those that belong to an answer are counted before it is
    /// returned.
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Whether plans are kept.
    pub(crate) fn keeps_plans(&self) -> bool {
        self.prepare == Prepare::Always
    }

    /// Prepares statements that are about to be pipelined, so that nothing has to be waited for in
    /// between.
    pub(crate) async fn prepare_all(&self, statements: &[&'static Statement]) -> PgResult<()> {
        if self.keeps_plans() {
            for statement in statements {
                self.prepared(statement).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn query(
        &self,
        statement: &'static Statement,
        with: Parameters<'_>,
    ) -> PgResult<Vec<Row>> {
        match self.prepare {
            Prepare::Always => {
                let waiting = self.backlog.ask();
                let answer = self.query_prepared(statement, with).await;
                waiting.answered();
                answer
            }
            Prepare::Never => Box::pin(self.ask(statement, with)).await,
        }
    }

    async fn query_prepared(
        &self,
        statement: &'static Statement,
        with: Parameters<'_>,
    ) -> PgResult<Vec<Row>> {
        let prepared = self.prepared(statement).await?;
        self.client.query(&prepared, with).await
    }

    /// Runs a statement without preparing it: the fastest for one-time statements.
    pub(crate) async fn ask(
        &self,
        statement: &'static Statement,
        with: Parameters<'_>,
    ) -> PgResult<Vec<Row>> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> =
            with.iter().copied().zip(statement.types.iter().cloned()).collect();
        let sql = statement.in_schema(&self.schema);
        let waiting = self.backlog.ask();
        let answer = self.client.query_typed(&sql, &typed).await;
        waiting.answered();
        answer
    }

    /// Runs a statement without parameters and result: BEGIN, COMMIT and the like.
    pub(crate) async fn execute(&self, sql: &str) -> PgResult<()> {
        self.client.batch_execute(&in_schema(sql, &self.schema)).await
    }

    /// Begins a transaction for user statements. They are planned with the defaults of the server,
    /// the database and the role.
    pub(crate) async fn begin_for_user(&self) -> PgResult<()> {
        let settings = if self.keeps_plans() { theirs() } else { String::new() };
        self.client.batch_execute(&format!("{BEGIN}; {settings}")).await
    }

    /// Continues with our own statements in that transaction. Fails if it was ended in the
    /// meantime: a savepoint needs a transaction.
    pub(crate) async fn resume_own(&self) -> PgResult<()> {
        let settings = if self.keeps_plans() { ours("SET LOCAL") } else { String::new() };
        self.client.batch_execute(&format!("SAVEPOINT ours; RELEASE ours; {settings}")).await
    }

    /// The driver's client, for user statements.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    async fn prepared(&self, statement: &'static Statement) -> PgResult<tokio_postgres::Statement> {
        match self.known(statement) {
            Some(known) => Ok(known),
            // Boxed, because it happens once, and every call would carry its size.
            None => Box::pin(self.prepare(statement)).await,
        }
    }

    async fn prepare(&self, statement: &'static Statement) -> PgResult<tokio_postgres::Statement> {
        let sql = statement.in_schema(&self.schema);
        let prepared = self.client.prepare_typed(&sql, statement.types).await?;
        let mut known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(statement.sql, prepared.clone());
        Ok(prepared)
    }

    fn known(&self, statement: &'static Statement) -> Option<tokio_postgres::Statement> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(statement.sql).cloned()
    }
}

fn ours(set: &str) -> String {
    SESSION_SETTINGS.map(|(name, value)| format!("{set} {name} = {value}; ")).concat()
}

fn theirs() -> String {
    let names = SESSION_SETTINGS.iter().map(|(name, _)| *name).chain([IDLE_LIMIT]);
    names.map(|name| format!("SET LOCAL {name} = DEFAULT; ")).collect()
}

/// Drives the connection until the session is dropped or the connection is lost.
async fn drive(
    mut connection: Connection,
    warnings: Arc<AtomicU64>,
    notifications: Option<mpsc::UnboundedSender<Notification>>,
) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notice(notice))
                if notice.parsed_severity() == Some(Severity::Warning) =>
            {
                tracing::warn!(
                    code = notice.code().code(),
                    message = notice.message(),
                    "the server warns"
                );
                warnings.fetch_add(1, Ordering::SeqCst);
            }
            Ok(AsyncMessage::Notification(notification)) => {
                if let Some(to) = &notifications {
                    // The receiver is gone: the session is about to end.
                    let _ = to.send(notification);
                }
            }
            Ok(_) => {}
            // Requests in flight fail.
            Err(_) => return,
        }
    }
}
