//! Handlers that write to the user's own tables in the PostgreSQL transaction of their ack.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::StoredEvent;
use tidelock_store_postgres::{PgTx, PostgresStore};

use super::Handler;
use crate::handler_error::HandlerError;
use crate::reactions::{Input, ReactionCtx};
use crate::staging::CommitVia;

/// One event per call, each in a transaction that ends with the ack.
pub(crate) struct InPostgres<I, F> {
    store: PostgresStore,
    handler: F,
    input: PhantomData<fn() -> I>,
}

impl<I, F> InPostgres<I, F> {
    pub(crate) fn new(store: PostgresStore, handler: F) -> Self {
        Self { store, handler, input: PhantomData }
    }
}

impl<I, F, R> Handler for InPostgres<I, F>
where
    I: Input,
    F: Fn(I, Arc<PgTx>, ReactionCtx) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send + 'static,
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
            let events = I::read(&**context.store(), events).await?;
            let own = Arc::new(store.begin().await?);
            for event in events {
                handler(event, own.clone(), context.clone()).await?;
            }
            let own = Arc::try_unwrap(own).map_err(|_| {
                HandlerError::fatal(
                    "the handler kept its transaction: drop it before the handler ends",
                )
            })?;
            context.staged(|staged| staged.via = CommitVia::Postgres(own))?;
            Ok(())
        }
        .boxed()
    }
}
