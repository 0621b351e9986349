//! Projections: the events of a target folded into one record, its row.
//!
//! The row is written in the commit of the ack, under the lease's fence. No other writer exists, so
//! it needs no expected revision. After a reset, a target starts with an empty row.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{ItemKey, Mark, RecordKey, Result, StoreExt, StoredEvent};

use super::Handler;
use crate::handler_error::HandlerError;
use crate::reactions::{Input, ReactionCtx, ReactionName, keys};

/// Events folded per call.
const BATCH: usize = 1_000;

/// Folds events into a row.
pub(crate) struct Fold<I, S, F> {
    fold: Arc<F>,
    kinds: PhantomData<fn() -> (I, S)>,
}

impl<I, S, F> Fold<I, S, F> {
    pub(crate) fn new(fold: F) -> Self {
        Self { fold: Arc::new(fold), kinds: PhantomData }
    }
}

impl<I, S, F> Handler for Fold<I, S, F>
where
    I: Input,
    S: Default + Serialize + DeserializeOwned + Send + 'static,
    F: Fn(&mut S, I) + Send + Sync + 'static,
{
    fn batch(&self) -> usize {
        BATCH
    }

    fn row(&self, reaction: &ReactionName, target: &ItemKey) -> Result<Option<RecordKey>> {
        keys::row(reaction.as_str(), target.as_str()).map(Some)
    }

    fn handle(
        &self,
        events: Vec<StoredEvent>,
        context: ReactionCtx,
    ) -> BoxFuture<'static, Result<(), HandlerError>> {
        let fold = self.fold.clone();
        async move {
            let key = keys::row(context.reaction(), context.target().as_str())?;
            let mut row: S = read(&context, &key).await?;
            for event in I::read(&**context.store(), events).await? {
                fold(&mut row, event);
            }
            Ok(context.put(&key, &row)?)
        }
        .boxed()
    }
}

async fn read<S: Default + DeserializeOwned>(
    context: &ReactionCtx,
    key: &RecordKey,
) -> Result<S, HandlerError> {
    if context.task().lease().at == Mark::ZERO {
        return Ok(S::default());
    }
    match context.store().get_one(key).await?.into_live() {
        Some(record) => record.value.to().map_err(HandlerError::fatal),
        None => Ok(S::default()),
    }
}
