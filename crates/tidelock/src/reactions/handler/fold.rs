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
use tidelock_store::{
    ExpectedRevision, Mark, RawJson, RecordKey, RecordWrite, Result, Store, StoreExt, StoredEvent,
};

use super::{Handler, Projection};
use crate::handler_error::HandlerError;
use crate::reactions::{Input, ReactionCtx};

/// Events folded per call.
const BATCH: usize = 1_000;

/// A projection is always handled with the key of its row.
const NO_ROW: &str = "the target of a projection has no row";

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

impl<I, S, F> Projection for Fold<I, S, F>
where
    I: Input,
    S: Default + Serialize + DeserializeOwned + Send + 'static,
    F: Fn(&mut S, I) + Send + Sync + 'static,
{
    fn fold(
        &self,
        store: Arc<dyn Store>,
        row: Option<RawJson>,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'static, Result<RawJson, HandlerError>> {
        let fold = self.fold.clone();
        async move {
            let mut row: S = match row {
                Some(row) => row.to().map_err(HandlerError::fatal)?,
                None => S::default(),
            };
            for event in I::read(&*store, events).await? {
                fold(&mut row, event);
            }
            Ok(RawJson::new(&row)?)
        }
        .boxed()
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

    fn projection(&self) -> Option<&dyn Projection> {
        Some(self)
    }

    fn handle(
        &self,
        events: Vec<StoredEvent>,
        context: ReactionCtx,
    ) -> BoxFuture<'static, Result<(), HandlerError>> {
        let (fold, kinds) = (self.fold.clone(), self.kinds);
        async move {
            let key = context.row().cloned().ok_or_else(|| HandlerError::fatal(NO_ROW))?;
            let row = read(&context, &key).await?;
            let folded = Self { fold, kinds }.fold(context.store().clone(), row, events).await?;
            let put = RecordWrite::put(&key, ExpectedRevision::Any, folded);
            Ok(context.write(put)?)
        }
        .boxed()
    }
}

async fn read(context: &ReactionCtx, key: &RecordKey) -> Result<Option<RawJson>> {
    if context.task().lease().at == Mark::ZERO {
        return Ok(None);
    }
    Ok(context.store().get_one(key).await?.into_live().map(|record| record.value))
}
