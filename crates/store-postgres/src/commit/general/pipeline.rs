//! Pipeline: statements that go to the server in one round trip, with their answers by index.

use std::future::Future;

use futures_util::future::{BoxFuture, join_all};
use tokio_postgres::Row;

use crate::connect::Session;
use crate::error::is_refusal;
use crate::statement::Statement;

type PgResult<T> = std::result::Result<T, tokio_postgres::Error>;

/// Statements to send together, in order.
pub(super) struct Pipeline<'a> {
    pub(super) session: &'a Session,
    statements: Vec<BoxFuture<'a, PgResult<Vec<Row>>>>,
}

/// Where the answer to a statement is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nth(usize);

/// The rows that each statement returned.
#[derive(Debug)]
pub(super) struct Answers(Vec<Vec<Row>>);

impl<'a> Pipeline<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        Self { session, statements: Vec::new() }
    }

    /// Adds BEGIN, COMMIT and the like.
    pub(super) fn execute(&mut self, sql: &'static str) {
        let session = self.session;
        self.push(async move { session.execute(sql).await.map(|()| Vec::new()) });
    }

    /// Adds a statement without parameters.
    pub(super) fn query(&mut self, statement: &'static Statement) -> Nth {
        self.push(self.session.query(statement, &[]))
    }

    /// Adds a query of the session.
    pub(super) fn push(
        &mut self,
        query: impl Future<Output = PgResult<Vec<Row>>> + Send + 'a,
    ) -> Nth {
        self.statements.push(Box::pin(query));
        Nth(self.statements.len() - 1)
    }

    /// Sends everything. The first refusal is the cause of the others.
    pub(super) async fn send(self) -> PgResult<Answers> {
        let (mut answers, mut lost) = (Vec::with_capacity(self.statements.len()), None);
        for answer in join_all(self.statements).await {
            match answer {
                Ok(rows) => answers.push(rows),
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => lost = lost.or(Some(error)),
            }
        }
        lost.map_or(Ok(Answers(answers)), Err)
    }
}

impl Answers {
    /// The rows of an answer; none if the statement was not sent.
    pub(super) fn rows(&self, nth: Option<Nth>) -> &[Row] {
        nth.map_or(&[], |Nth(at)| &self.0[at])
    }
}
