//! One connection to the server, and what was prepared on it.

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

use crate::identity::Epoch;
use crate::open::Prepare;
use crate::statement::{Statement, in_schema};
use crate::tls::Connection;
use backlog::Backlog;

type PgResult<T> = Result<T, tokio_postgres::Error>;

/// What a statement is run with.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How a plan is made for a connection of our own. All of it is about speed and nothing about
/// correctness: behind a proxy it is left out. (Rows that are taken one by one, by an index, are
/// also locked in the order of their names. Statements that are sent by a proxy, too, see to that
/// themselves.)
///
/// Every statement of this crate looks rows up by an index. A plan that was made while a table was
/// small would read through the whole of it, and be kept while the table grows.
///
/// And what was changed meanwhile is looked at again, whatever the role's or the database's default
/// is. With a stricter isolation it is an error (40001), which a commit is made again for; but
/// leases and renewals would be refused without need.
const MANNERS: [(&str, &str); 6] = [
    ("default_transaction_isolation", "'read committed'"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// Our own transactions never pause between two statements, unless this process is stopped or its
/// machine is gone; and then the rows that they hold, and the feed, must not wait until somebody
/// finds out. A limit that the server has for everybody stands.
fn end_after(pause: Duration) -> String {
    format!(
        "SELECT set_config('{IDLE_LIMIT}', '{}ms', false) WHERE current_setting('{IDLE_LIMIT}') = '0'; ",
        pause.as_millis()
    )
}

const IDLE_LIMIT: &str = "idle_in_transaction_session_timeout";

/// Later statements see what others committed meanwhile, whatever the role's or the database's
/// default is.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A connection, shared by whoever has something to ask: questions are sent at once and answered in
/// turn.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    schema: Arc<str>,
    prepare: Prepare,
    prepared: Mutex<HashMap<&'static str, tokio_postgres::Statement>>,
    /// How many warnings the server has sent.
    warnings: Arc<AtomicU64>,
    /// Nothing until it is known to lead to the store.
    epoch: Option<Epoch>,
    silence: Backlog,
    given_up: AtomicBool,
    /// Rung when it is given up.
    end: Arc<Notify>,
}

impl Session {
    /// Makes a session of a new connection; what the server tells by itself goes to
    /// `notifications`.
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
            silence: Backlog::default(),
            given_up: AtomicBool::new(false),
            end,
        })
    }

    /// From now on it can be used for as long as this epoch lasts.
    pub(crate) fn belongs_to(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    /// Whether it cannot be used any more: it was lost, or leads to a server that was replaced.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
            || self.given_up.load(Ordering::Relaxed)
            || self.epoch.as_ref().is_some_and(Epoch::is_over)
    }

    /// Ends the connection at once. Whoever waits for an answer is told that it was lost.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }

    /// Whether the server has yet to answer questions for which nobody waits any more.
    pub(crate) fn is_behind(&self) -> bool {
        self.silence.is_any()
    }

    /// Whether there are so many of them that nothing should be asked before it has answered.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_long()
    }

    /// Waits until everything that was asked before has been answered.
    pub(crate) async fn catch_up(&self) -> PgResult<()> {
        let waiting = self.silence.ask();
        let answer = self.client.batch_execute("").await;
        waiting.answered();
        answer
    }

    /// How many warnings the server has sent so far. Those that belong to an answer are counted
    /// before it is given.
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Whether what was planned once is kept.
    pub(crate) fn keeps_plans(&self) -> bool {
        self.prepare == Prepare::Always
    }

    /// Prepares what is about to be sent in one go, so that nothing has to be waited for in
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
                let waiting = self.silence.ask();
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

    /// Runs a statement without preparing it: the quickest for what is asked once.
    pub(crate) async fn ask(
        &self,
        statement: &'static Statement,
        with: Parameters<'_>,
    ) -> PgResult<Vec<Row>> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> =
            with.iter().copied().zip(statement.types.iter().cloned()).collect();
        let sql = in_schema(statement.sql, &self.schema);
        let waiting = self.silence.ask();
        let answer = self.client.query_typed(&sql, &typed).await;
        waiting.answered();
        answer
    }

    /// Runs something that has no parameters and gives nothing: BEGIN, COMMIT and the like.
    pub(crate) async fn execute(&self, sql: &str) -> PgResult<()> {
        self.client.batch_execute(&in_schema(sql, &self.schema)).await
    }

    /// Begins a transaction for statements that are not ours. They are planned as the server, the
    /// database and the role have it for everybody.
    pub(crate) async fn lend(&self) -> PgResult<()> {
        let manners = if self.keeps_plans() { theirs() } else { String::new() };
        self.client.batch_execute(&format!("{BEGIN}; {manners}")).await
    }

    /// Goes on with our own statements in that transaction. Fails if it was ended meanwhile: only
    /// inside of one can there be a savepoint.
    pub(crate) async fn take_back(&self) -> PgResult<()> {
        let manners = if self.keeps_plans() { ours("SET LOCAL") } else { String::new() };
        self.client.batch_execute(&format!("SAVEPOINT ours; RELEASE ours; {manners}")).await
    }

    /// The driver's own handle, for users' own statements.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    async fn prepared(&self, statement: &'static Statement) -> PgResult<tokio_postgres::Statement> {
        match self.known(statement) {
            Some(known) => Ok(known),
            // Apart, because it happens once, and every call would carry room for it.
            None => Box::pin(self.prepare(statement)).await,
        }
    }

    async fn prepare(&self, statement: &'static Statement) -> PgResult<tokio_postgres::Statement> {
        let sql = in_schema(statement.sql, &self.schema);
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
    MANNERS.map(|(name, value)| format!("{set} {name} = {value}; ")).concat()
}

fn theirs() -> String {
    let names = MANNERS.iter().map(|(name, _)| *name).chain([IDLE_LIMIT]);
    names.map(|name| format!("SET LOCAL {name} = DEFAULT; ")).collect()
}

/// Moves bytes until the session is dropped or the connection is lost.
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
                    // Nobody listens any more: the session is about to go.
                    let _ = to.send(notification);
                }
            }
            Ok(_) => {}
            // Whoever waits for an answer is told.
            Err(_) => return,
        }
    }
}
