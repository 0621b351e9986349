//! Handlers: user code that processes events one by one or in batches of one target.

mod fold;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{RawJson, Store, StoredEvent};

use super::{Input, ReactionCtx};
use crate::handler_error::HandlerError;

pub(crate) use fold::Fold;

/// A handler, independent of its event type.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The maximum number of events per call.
    fn batch(&self) -> usize;

    /// The fold, if this is a projection.
    fn projection(&self) -> Option<&dyn Projection> {
        None
    }

    /// Handles events of one target, oldest first. `events` is never empty.
    fn handle(
        &self,
        events: Vec<StoredEvent>,
        context: ReactionCtx,
    ) -> BoxFuture<'static, Result<(), HandlerError>>;
}

/// A fold of events into the row of their target.
pub(crate) trait Projection: Send + Sync {
    /// Folds events into a row; into an empty one, if there is none.
    fn fold(
        &self,
        store: Arc<dyn Store>,
        row: Option<RawJson>,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'static, Result<RawJson, HandlerError>>;
}

/// One event per call.
pub(crate) struct Each<I, F> {
    handler: Arc<F>,
    input: PhantomData<fn() -> I>,
}

impl<I, F> Each<I, F> {
    pub(crate) fn new(handler: F) -> Self {
        Self { handler: Arc::new(handler), input: PhantomData }
    }
}

impl<I, F, R> Handler for Each<I, F>
where
    I: Input,
    F: Fn(I, ReactionCtx) -> R + Send + Sync + 'static,
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
        let handler = self.handler.clone();
        async move {
            for event in I::read(&**context.store(), events).await? {
                handler(event, context.clone()).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

/// Several events of one target per call.
pub(crate) struct Batch<I, F> {
    most: usize,
    handler: Arc<F>,
    input: PhantomData<fn() -> I>,
}

impl<I, F> Batch<I, F> {
    pub(crate) fn new(most: usize, handler: F) -> Self {
        Self { most, handler: Arc::new(handler), input: PhantomData }
    }
}

impl<I, F, R> Handler for Batch<I, F>
where
    I: Input,
    F: Fn(Vec<I>, ReactionCtx) -> R + Send + Sync + 'static,
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
        let handler = self.handler.clone();
        async move {
            let events = I::read(&**context.store(), events).await?;
            handler(events, context).await
        }
        .boxed()
    }
}
