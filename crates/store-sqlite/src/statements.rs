//! The one door through which a commit and a user's own SQL land together.
//!
//! Statements are handed over as data and run in the writer's transaction, just before the commit's
//! own rows are written: nobody else's code ever runs while the file is locked, and no type of
//! rusqlite is public.

use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, ToSql};
use tidelock_store::plan::{self, Decision, Plan, Rows};
use tidelock_store::{Commit, CommitOutcome, Result, StoreError, StoreOperation};

use crate::SqliteStore;
use crate::commit::Transaction;
use crate::error::failed;

/// What the store's own tables are called.
const RESERVED: &str = "tidelock_";

/// A statement of one's own that changes something, in the same file as the store.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStatement {
    sql: String,
    values: Vec<Value>,
}

/// A value of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl SqlStatement {
    /// This statement, with `?1`, `?2` and so on where values go.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), values: Vec::new() }
    }

    /// The same, with the next value.
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
            // To SQLite, so is whatever begins or ends a transaction.
            return Err(self.refused("it changes no row: only what does can land with a commit"));
        }
        statement.execute(rusqlite::params_from_iter(&self.values)).map(drop).map_err(refused)
    }

    /// Values are not quoted: they may be secret.
    fn refused(&self, why: &str) -> StoreError {
        StoreError::invalid(format!("statement {:?} of one's own: {why}", self.sql))
    }
}

impl SqliteStore {
    /// Makes a commit, and runs statements of one's own in the same transaction: all are durable,
    /// or none is.
    ///
    /// The statements run in order, once it is known that the commit holds. They do not run if this
    /// very commit was made before (under the same id, with the same events, or ending the same
    /// lease in the same way): then they landed with that one. So after an unknown outcome, send
    /// the same again.
    ///
    /// # Errors
    /// As [`Store::commit`](tidelock_store::Store::commit); `Invalid` if a statement is refused,
    /// and then nothing happened.
    pub async fn commit_with(
        &self,
        commit: Commit,
        own: Vec<SqlStatement>,
    ) -> Result<CommitOutcome> {
        self.check_process(StoreOperation::Commit)?;
        let checked = commit.check().and_then(|()| own.iter().try_for_each(SqlStatement::check));
        checked.map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared
            .writer
            .write(StoreOperation::Commit, move |tx| tx.commit_with(&commit, &own))
            .await
    }
}

impl Transaction<'_> {
    fn commit_with(&mut self, commit: &Commit, own: &[SqlStatement]) -> Result<CommitOutcome> {
        match plan::decide(commit, self.now, self)? {
            Decision::Replay(committed) => Ok(CommitOutcome::Committed(committed)),
            Decision::Conflict(conflict) => Ok(CommitOutcome::Conflict(conflict)),
            Decision::Apply(plan) => {
                if !self.was_made_before(commit, &plan)? {
                    self.run(own)?;
                }
                self.write(*plan).map(CommitOutcome::Committed)
            }
        }
    }

    /// Whether a part of a commit is accepted only because it is there already.
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

    /// If one of them is refused, none has run; the others who share this transaction never notice.
    fn run(&self, own: &[SqlStatement]) -> Result<()> {
        self.connection.execute_batch("SAVEPOINT own").map_err(failed)?;
        let ran = own.iter().try_for_each(|statement| statement.run(self.connection));
        let end = if ran.is_ok() { "RELEASE own" } else { "ROLLBACK TO own; RELEASE own" };
        self.connection.execute_batch(end).map_err(failed)?;
        ran
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
