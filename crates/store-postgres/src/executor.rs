//! The executor: how a commit's statements reach a transaction that belongs to the caller.
//!
//! A caller's connection may be of any driver. So the seam is narrow: SQL text, parameters and
//! columns as bytes in PostgreSQL's binary format, and the code of an error. What the bytes mean is
//! known on this side alone, and is the same as on a connection of the store.

mod tokio_postgres_transaction;

use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use tidelock_store::{Result, StoreError, async_trait};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::read_column::ReadColumn;

type BoxError = Box<dyn Error + Send + Sync>;

/// A connection on which the caller has begun a transaction.
///
/// This crate implements it for `tokio_postgres::Transaction`, and `tidelock-sqlx` for sqlx.
/// Another driver takes the two methods. Nothing here begins or ends the caller's transaction.
#[async_trait]
pub trait SqlExecutor: Send {
    /// Runs SQL text of one or more statements, without parameters and without rows: a simple
    /// query.
    ///
    /// # Errors
    /// The server's or the driver's.
    async fn execute(&mut self, sql: &str) -> Result<(), ExecutorError>;

    /// Runs statements in order and returns the rows of each. Ends with the first that fails.
    ///
    /// A statement has to begin when the one before it is done, as statements that are sent
    /// together do.
    ///
    /// # Errors
    /// The first statement's that fails.
    async fn query(&mut self, queries: &[SqlQuery]) -> Result<Vec<Vec<SqlRow>>, ExecutorError>;
}

#[async_trait]
impl<X: SqlExecutor + ?Sized> SqlExecutor for &mut X {
    async fn execute(&mut self, sql: &str) -> Result<(), ExecutorError> {
        (**self).execute(sql).await
    }

    async fn query(&mut self, queries: &[SqlQuery]) -> Result<Vec<Vec<SqlRow>>, ExecutorError> {
        (**self).query(queries).await
    }
}

/// A statement, with `$1`, `$2` and so on for its parameters.
#[derive(Debug, Clone)]
pub struct SqlQuery {
    sql: String,
    parameters: Vec<SqlParameter>,
}

/// A parameter in PostgreSQL's binary format.
#[derive(Clone)]
pub struct SqlParameter {
    of: Type,
    value: Option<Vec<u8>>,
}

/// A row of an answer: columns in PostgreSQL's binary format.
#[derive(Debug, Clone, Default)]
pub struct SqlRow {
    columns: Vec<(Option<Type>, Option<Vec<u8>>)>,
}

/// Why a statement failed in a caller's transaction.
#[derive(Debug)]
pub struct ExecutorError {
    code: Option<String>,
    message: String,
    source: Option<BoxError>,
}

impl SqlQuery {
    pub(crate) fn new(sql: String, parameters: Vec<SqlParameter>) -> Self {
        Self { sql, parameters }
    }

    /// The text. There are few different ones, so a prepared statement of each is worth keeping.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[SqlParameter] {
        &self.parameters
    }
}

impl SqlParameter {
    pub(crate) fn encode(value: &(dyn ToSql + Sync), of: &Type) -> Result<Self, BoxError> {
        let mut bytes = BytesMut::new();
        let value = match value.to_sql_checked(of, &mut bytes)? {
            IsNull::Yes => None,
            IsNull::No => Some(bytes.to_vec()),
        };
        Ok(Self { of: of.clone(), value })
    }

    /// The object id of its type, one that every server has.
    pub fn oid(&self) -> u32 {
        self.of.oid()
    }

    /// The value in binary format, or none for NULL.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    pub(crate) fn as_sql(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

/// Parameters may be personal or secret.
impl fmt::Debug for SqlParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlParameter").field("type", &self.of.name()).finish_non_exhaustive()
    }
}

impl ToSql for SqlParameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let Some(value) = &self.value else { return Ok(IsNull::Yes) };
        out.extend_from_slice(value);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl SqlRow {
    /// Creates a row of columns, each with the object id of its type and its value in binary
    /// format, or none for NULL.
    pub fn new(columns: impl IntoIterator<Item = (u32, Option<Vec<u8>>)>) -> Self {
        let typed = |(oid, value)| (Type::from_oid(oid), value);
        Self { columns: columns.into_iter().map(typed).collect() }
    }
}

impl ReadColumn for SqlRow {
    fn column<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T> {
        let strange = |why: &dyn fmt::Display| {
            StoreError::corrupt(format!("column {at} of a row cannot be read: {why}"))
        };
        let (of, value) = self.columns.get(at).ok_or_else(|| strange(&"there is none"))?;
        let of = of.as_ref().filter(|of| T::accepts(of));
        let of = of.ok_or_else(|| strange(&"it has another type"))?;
        T::from_sql_nullable(of, value.as_deref()).map_err(|e| strange(&e))
    }
}

impl ExecutorError {
    /// Creates an error that the server reported, with its SQLSTATE.
    pub fn reported(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: Some(code.into()), message: message.into(), source: None }
    }

    /// Creates an error of the driver: the connection was lost, or an answer cannot be read.
    pub fn of_driver(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self { code: None, message: source.to_string(), source: Some(source) }
    }

    /// The server's SQLSTATE, unless the error is the driver's.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ExecutorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Error for ExecutorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
