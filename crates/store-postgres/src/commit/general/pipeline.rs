//! Pipeline: statements that go to the server in one round trip, with their answers by index.
//!
//! Parameters are encoded when a statement is added, so the same pipeline goes out over a
//! connection of the store, or over a caller's connection, whatever its driver is.

use futures_util::future::{BoxFuture, join_all};
use tokio_postgres::Row;

use crate::connect::{Parameters, Session};
use crate::error::is_refusal;
use crate::executor::{ExecutorError, SqlExecutor, SqlParameter, SqlQuery, SqlRow};
use crate::statement::Statement;

type PgResult<T> = std::result::Result<T, tokio_postgres::Error>;

/// Statements to send together, in order.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    statements: Vec<(&'static Statement, Vec<SqlParameter>)>,
}

/// Where the answer to a statement is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nth(usize);

/// The rows that each statement returned.
#[derive(Debug)]
pub(super) struct Answers<R>(Vec<Vec<R>>);

impl Pipeline {
    /// Adds a statement.
    pub(super) fn add(&mut self, statement: &'static Statement, with: Parameters<'_>) -> Nth {
        let encoded = with.iter().zip(statement.types).map(|(value, of)| {
            SqlParameter::encode(*value, of).expect("a parameter has the type of its statement")
        });
        self.statements.push((statement, encoded.collect()));
        Nth(self.statements.len() - 1)
    }

    /// Sends everything over a connection of the store, perhaps after or before a statement such as
    /// BEGIN or COMMIT. The first refusal is the cause of the others.
    pub(super) async fn send(
        self,
        session: &Session,
        before: Option<&'static str>,
        after: Option<&'static str>,
    ) -> PgResult<Answers<Row>> {
        let execute = |sql: &'static str| -> BoxFuture<'_, PgResult<Vec<Row>>> {
            Box::pin(async move { session.execute(sql).await.map(|()| Vec::new()) })
        };
        let mut queries: Vec<_> = before.map(execute).into_iter().collect();
        let skipped = queries.len();
        for (statement, parameters) in &self.statements {
            queries.push(Box::pin(async move {
                let with: Vec<_> = parameters.iter().map(SqlParameter::as_sql).collect();
                session.query(statement, &with).await
            }));
        }
        queries.extend(after.map(execute));
        let (mut answers, mut lost) = (Vec::with_capacity(queries.len()), None);
        for answer in join_all(queries).await {
            match answer {
                Ok(rows) => answers.push(rows),
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => lost = lost.or(Some(error)),
            }
        }
        lost.map_or_else(|| Ok(Answers(answers.split_off(skipped))), Err)
    }

    /// Sends everything over a caller's connection.
    pub(super) async fn send_to(
        self,
        executor: &mut dyn SqlExecutor,
        schema: &str,
    ) -> std::result::Result<Answers<SqlRow>, ExecutorError> {
        let query = |(statement, parameters): (&Statement, _)| {
            SqlQuery::new(statement.in_schema(schema), parameters)
        };
        let queries: Vec<SqlQuery> = self.statements.into_iter().map(query).collect();
        executor.query(&queries).await.map(Answers)
    }
}

impl<R> Answers<R> {
    /// The rows of an answer; none if the statement was not sent.
    pub(super) fn rows(&self, nth: Option<Nth>) -> &[R] {
        nth.map_or(&[], |Nth(at)| &self.0[at])
    }
}
