//! User SQL inside a commit's transaction.
//!
//! Statements are passed as data and run in the writer's transaction, just before the commit's own
//! rows are written. No user code runs while the file is locked, and no type of rusqlite is public.
//!
//! A read is made on a reading connection, without the lock. To rest a commit on it, the same read
//! is made again in the writer's transaction, and its rows are compared: optimistic concurrency, as
//! with the version of a stream.

use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, ToSql};
use tidelock_store::plan::{self, Decided, Plan, ReadRows};
use tidelock_store::{Commit, CommitOutcome, Result, StoreError, StoreOperation};

use crate::SqliteStore;
use crate::commit::Transaction;
use crate::error::failed;
use crate::reader::Reader;

/// The prefix of the store's own tables.
const RESERVED: &str = "tidelock_";

/// The most rows of a query: they are kept until the commit, and compared while the file is locked.
const MOST_ROWS: usize = 10_000;

/// A user's SQL statement that changes data in the store's file.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStatement {
    sql: String,
    values: Vec<Value>,
}

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Rows that a query returned, and on which a commit can rest.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlRead {
    query: SqlStatement,
    rows: Vec<Vec<Value>>,
}

/// What a commit with statements and reads came to.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlOutcome {
    /// The commit's own outcome.
    Store(CommitOutcome),
    /// A query would return other rows now, so nothing was written.
    Changed {
        /// The query's text.
        sql: String,
    },
}

impl SqlRead {
    /// The rows, as columns.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// Takes the rows.
    pub fn into_rows(self) -> Vec<Vec<Value>> {
        self.rows
    }
}

impl SqlStatement {
    /// Creates a statement, with `?1`, `?2` and so on as parameters.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), values: Vec::new() }
    }

    /// Adds the next parameter.
    #[must_use]
    pub fn with(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    fn check(&self) -> Result<()> {
        match self.sql.to_ascii_lowercase().contains(RESERVED) {
            true => {
                Err(self.refused(&format!("tables that begin with {RESERVED} are the store's")))
            }
            false => Ok(()),
        }
    }

    fn run(&self, connection: &Connection) -> Result<()> {
        let refused = |error: rusqlite::Error| self.refused(&error.to_string());
        let mut statement = connection.prepare_cached(&self.sql).map_err(refused)?;
        if statement.readonly() {
            // In SQLite, this includes statements that begin or end a transaction.
            return Err(self.refused("it changes no row: only what does can land with a commit"));
        }
        statement.execute(rusqlite::params_from_iter(&self.values)).map(drop).map_err(refused)
    }

    fn read(&self, connection: &Connection) -> Result<Vec<Vec<Value>>> {
        let refused = |error: rusqlite::Error| self.refused(&error.to_string());
        let mut statement = connection.prepare_cached(&self.sql).map_err(refused)?;
        if !statement.readonly() || statement.column_count() == 0 {
            return Err(self.refused("it is no query: what changes rows lands with a commit"));
        }
        let width = statement.column_count();
        let mut found =
            statement.query(rusqlite::params_from_iter(&self.values)).map_err(refused)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(refused)? {
            if rows.len() == MOST_ROWS {
                return Err(self.refused(&format!("it returns more than {MOST_ROWS} rows")));
            }
            let value = |at| row.get_ref(at).map(Value::of).map_err(refused);
            rows.push((0..width).map(value).collect::<Result<_>>()?);
        }
        Ok(rows)
    }

    /// Parameters are not quoted: they may be secret.
    fn refused(&self, why: &str) -> StoreError {
        StoreError::invalid(format!("user statement {:?}: {why}", self.sql))
    }
}

impl SqliteStore {
    /// Commits, and runs user statements in the same transaction: all are durable, or none is.
    ///
    /// The statements run in order, once the commit is known to hold. They do not run if the same
    /// commit was made before (under the same id, with the same events, or settling the same lease
    /// in the same way): then they ran with that one. So after an unknown outcome, send the same
    /// again.
    ///
    /// # Errors
    /// As [`Store::commit`](tidelock_store::Store::commit); `Invalid` if a statement is refused,
    /// and then nothing happened.
    pub async fn commit_with(
        &self,
        commit: Commit,
        own: Vec<SqlStatement>,
    ) -> Result<CommitOutcome> {
        match self.commit_resting_on(commit, Vec::new(), own).await? {
            SqlOutcome::Store(outcome) => Ok(outcome),
            SqlOutcome::Changed { sql } => {
                Err(StoreError::corrupt(format!("{sql:?} changed, and nothing was read")))
            }
        }
    }

    /// Commits with user statements if these reads would still return the same rows.
    ///
    /// The reads are made again in the commit's transaction, while no other writer has a turn, and
    /// before the statements run. If the same commit was made before, neither happens: see
    /// [`commit_with`](Self::commit_with).
    ///
    /// # Errors
    /// As [`commit_with`](Self::commit_with).
    pub async fn commit_resting_on(
        &self,
        commit: Commit,
        reads: Vec<SqlRead>,
        own: Vec<SqlStatement>,
    ) -> Result<SqlOutcome> {
        self.check_process(StoreOperation::Commit)?;
        let checked = commit.check().and_then(|()| own.iter().try_for_each(SqlStatement::check));
        checked.map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared
            .writer
            .write(StoreOperation::Commit, move |tx| tx.commit_with(&commit, &reads, &own))
            .await
    }

    /// Runs a query on your own tables and returns its rows, as they are committed now. A commit
    /// can [rest](Self::commit_resting_on) on them.
    ///
    /// # Errors
    /// `Invalid` if the statement is refused, is no query, or returns more than 10,000 rows.
    pub async fn query(&self, query: SqlStatement) -> Result<SqlRead> {
        self.check_process(StoreOperation::Scan)?;
        query.check().map_err(|e| e.during(StoreOperation::Scan))?;
        let read = move |reader: &mut Reader| {
            let rows = query.read(&reader.connection)?;
            Ok(SqlRead { query, rows })
        };
        self.shared.readers.read(StoreOperation::Scan, read).await
    }
}

impl Transaction<'_> {
    fn commit_with(
        &mut self,
        commit: &Commit,
        reads: &[SqlRead],
        own: &[SqlStatement],
    ) -> Result<SqlOutcome> {
        let outcome = match plan::decide(commit, self.now, self)? {
            Decided::Replay(committed) => CommitOutcome::Committed(committed),
            Decided::Conflict(conflict) => CommitOutcome::Conflict(conflict),
            Decided::Apply(plan) => {
                if !self.was_made_before(commit, &plan)? {
                    if let Some(changed) = self.changed(reads)? {
                        return Ok(SqlOutcome::Changed { sql: changed.query.sql.clone() });
                    }
                    self.run(own)?;
                }
                self.write(*plan).map(CommitOutcome::Committed)?
            }
        };
        Ok(SqlOutcome::Store(outcome))
    }

    /// The first read that would return other rows now.
    fn changed<'r>(&self, reads: &'r [SqlRead]) -> Result<Option<&'r SqlRead>> {
        for read in reads {
            if read.query.read(self.connection)? != read.rows {
                return Ok(Some(read));
            }
        }
        Ok(None)
    }

    /// Whether a part of a commit is accepted only because it was committed before.
    fn was_made_before(&mut self, commit: &Commit, plan: &Plan) -> Result<bool> {
        for settlement in &commit.settlements {
            if self
                .item(&settlement.lease.item)?
                .is_some_and(|item| item.was_settled_so(settlement))
            {
                return Ok(true);
            }
        }
        Ok(plan.committed.appends.iter().any(|appended| appended.replayed))
    }

    /// If one statement is refused, none has run; other commits of the transaction are not
    /// affected.
    fn run(&self, own: &[SqlStatement]) -> Result<()> {
        self.connection.execute_batch("SAVEPOINT own").map_err(failed)?;
        let ran = own.iter().try_for_each(|statement| statement.run(self.connection));
        let end = if ran.is_ok() { "RELEASE own" } else { "ROLLBACK TO own; RELEASE own" };
        self.connection.execute_batch(end).map_err(failed)?;
        ran
    }
}

impl Value {
    fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Stored::Null),
            Self::Integer(number) => ToSqlOutput::Owned(Stored::Integer(*number)),
            Self::Real(number) => ToSqlOutput::Owned(Stored::Real(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

macro_rules! value_from {
    ($($from:ty => $into:expr),+ $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                $into(value)
            }
        }
    )+};
}

value_from!(
    i64 => Self::Integer,
    f64 => Self::Real,
    String => Self::Text,
    &str => |text: &str| Self::Text(text.to_owned()),
    Vec<u8> => Self::Blob,
    bool => |is: bool| Self::Integer(i64::from(is)),
);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
