//! Handlers that write to the user's own tables in the SQLite transaction of their ack.

use std::future::Future;
use std::marker::PhantomData;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::StoredEvent;
use tidelock_store_sqlite::{SqlStatement, SqliteStore};

use super::Handler;
use crate::handler_error::HandlerError;
use crate::reactions::{Input, ReactionCtx};
use crate::staging::CommitVia;

/// One event per call, each with statements that run in the transaction of the ack.
pub(crate) struct InSqlite<I, F> {
    store: SqliteStore,
    handler: F,
    input: PhantomData<fn() -> I>,
}

impl<I, F> InSqlite<I, F> {
    pub(crate) fn new(store: SqliteStore, handler: F) -> Self {
        Self { store, handler, input: PhantomData }
    }
}

impl<I, F, R> Handler for InSqlite<I, F>
where
    I: Input,
    F: Fn(I, ReactionCtx) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Vec<SqlStatement>, HandlerError>> + Send + 'static,
{
    fn batch(&self) -> usize {
        1
    }

    fn handle(
        &self,
        events: Vec<StoredEvent>,
        context: ReactionCtx,
    ) -> BoxFuture<'static, Result<(), HandlerError>> {
        let (store, handler) = (self.store.clone(), self.handler.clone());
        async move {
            let mut statements = Vec::new();
            for event in I::read(&**context.store(), events).await? {
                statements.extend(handler(event, context.clone()).await?);
            }
            if !statements.is_empty() {
                context.staged(|staged| staged.via = CommitVia::Sqlite(store, statements))?;
            }
            Ok(())
        }
        .boxed()
    }
}
