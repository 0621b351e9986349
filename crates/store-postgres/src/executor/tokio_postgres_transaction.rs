//! The executor for a transaction of tokio-postgres.

use futures_util::future::join_all;
use tidelock_store::{Result, async_trait};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};

use super::{ExecutorError, SqlExecutor, SqlQuery, SqlRow};
use crate::error::is_refusal;

#[async_trait]
impl SqlExecutor for Transaction<'_> {
    async fn execute(&mut self, sql: &str) -> Result<(), ExecutorError> {
        self.batch_execute(sql).await.map_err(ExecutorError::from)
    }

    /// Sends all of them in one round trip.
    async fn query(&mut self, queries: &[SqlQuery]) -> Result<Vec<Vec<SqlRow>>, ExecutorError> {
        let transaction = &*self;
        let asked = queries.iter().map(|query| async move {
            let with: Vec<(&(dyn ToSql + Sync), Type)> = query
                .parameters()
                .iter()
                .map(|parameter| (parameter.as_sql(), parameter.of.clone()))
                .collect();
            transaction.query_typed(query.sql(), &with).await
        });
        let (mut answers, mut lost) = (Vec::with_capacity(queries.len()), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(rows) => answers.push(rows.iter().map(row).collect::<Result<_, _>>()?),
                // The first refusal is the cause of the others.
                Err(error) if is_refusal(&error) => return Err(error.into()),
                Err(error) => lost = lost.or(Some(error)),
            }
        }
        lost.map_or(Ok(answers), |error| Err(error.into()))
    }
}

impl From<Error> for ExecutorError {
    fn from(error: Error) -> Self {
        match error.as_db_error() {
            Some(told) => Self::reported(told.code().code(), told.message()),
            None => Self::of_driver(error),
        }
    }
}

fn row(row: &Row) -> Result<SqlRow, ExecutorError> {
    let column = |(at, column): (usize, &tokio_postgres::Column)| {
        let value: Option<Raw> = row.try_get(at)?;
        Ok((column.type_().oid(), value.map(|Raw(bytes)| bytes)))
    };
    let columns: Vec<_> =
        row.columns().iter().enumerate().map(column).collect::<Result<_, Error>>()?;
    Ok(SqlRow::new(columns))
}

/// A value of any type, as its bytes.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
