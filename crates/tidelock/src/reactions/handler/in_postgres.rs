//! Handlers that write to the user's own tables in the PostgreSQL transaction of their ack, one
//! event or a batch of them at a time.

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

/// Events of one target, at most so many per call, each call in a transaction that ends with the
/// ack.
pub(crate) struct InPostgres<I, F> {
    store: PostgresStore,
    most: usize,
    handler: F,
    input: PhantomData<fn() -> I>,
}

/// Turns a handler of one event into one of a batch of one.
pub(crate) fn each<I, F, R>(
    handler: F,
) -> impl Fn(Vec<I>, Arc<PgTx>, ReactionCtx) -> BoxFuture<'static, Result<(), HandlerError>>
+ Clone
+ Send
+ Sync
+ 'static
where
    I: Input,
    F: Fn(I, Arc<PgTx>, ReactionCtx) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    move |events: Vec<I>, own: Arc<PgTx>, context: ReactionCtx| {
        let handler = handler.clone();
        async move {
            for event in events {
                handler(event, own.clone(), context.clone()).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

impl<I, F> InPostgres<I, F> {
    pub(crate) fn new(store: PostgresStore, most: usize, handler: F) -> Self {
        Self { store, most, handler, input: PhantomData }
    }
}

impl<I, F, R> Handler for InPostgres<I, F>
where
    I: Input,
    F: Fn(Vec<I>, Arc<PgTx>, ReactionCtx) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    fn batch(&self) -> usize {
        self.most
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
            // A handler that asks its context for the transaction gets the same one.
            context.staged(|staged| staged.via = CommitVia::Postgres(own.clone()))?;
            handler(events, own, context.clone()).await
        }
        .boxed()
    }
}
