//! [`ReactionCtx`]: the unit of work of a handler, and the event and lease that it handles.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use tidelock_store::{EventId, ItemKey, LeaseToken, RecordKey, Result, StoredEvent};
use tokio_util::sync::CancellationToken;

use super::ReactionName;
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::staging::{Staged, Tx, TxOwner};
use crate::worker::LeasedTask;

/// The context of a handler: a [`Tx`] that lands with the handler's acknowledgement, or not at all.
#[derive(Debug, Clone)]
pub struct ReactionCtx {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    task: LeasedTask,
    reaction: ReactionName,
    rebuild: bool,
    silent: bool,
    row: Option<RecordKey>,
    tx: Tx,
}

/// How an event came to be handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// It was handled before a reset.
    pub(crate) rebuild: bool,
    /// And what it did elsewhere then is not to be done again.
    pub(crate) silent: bool,
}

impl ReactionCtx {
    pub(crate) fn new(
        tidelock: &Tidelock,
        task: &LeasedTask,
        reaction: &ReactionName,
        cause: &StoredEvent,
        replay: Replay,
        row: Option<RecordKey>,
    ) -> Self {
        let metadata = Metadata {
            reaction: Some(reaction.to_string()),
            ..Metadata::caused_by(cause.id, &Metadata::of(cause))
        };
        let shared = Shared {
            task: task.clone(),
            reaction: reaction.clone(),
            rebuild: replay.rebuild,
            silent: replay.silent,
            row,
            tx: Tx::new(tidelock, metadata, effect_key(reaction, cause.id)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The reaction that handles.
    pub fn reaction(&self) -> &str {
        self.shared.reaction.as_str()
    }

    /// The target that the event was routed to.
    pub fn target(&self) -> &ItemKey {
        &self.shared.task.lease().item.key
    }

    /// The lease token, for a separate commit that must not land once the lease is lost.
    pub fn lease(&self) -> LeaseToken {
        self.shared.task.token()
    }

    /// The key for effects of this event, for handlers of batches.
    /// [`effect_key`](Tx::effect_key) is that of the first event.
    pub fn effect_key_of(&self, event: EventId) -> String {
        effect_key(&self.shared.reaction, event)
    }

    /// A token that is cancelled when the lease is lost: whatever is committed from then on is
    /// refused, so stop.
    pub fn lost(&self) -> &CancellationToken {
        self.shared.task.lost()
    }

    /// A token that is cancelled when the process shuts down. A long handler may stop early then,
    /// but need not.
    pub fn stopping(&self) -> &CancellationToken {
        self.shared.task.stopping()
    }

    /// Whether this event was handled before the target was reset.
    pub fn is_rebuild(&self) -> bool {
        self.shared.rebuild
    }

    /// Does something outside the store, under a stable key: at least once. Left out, giving
    /// nothing, for events that were handled before a reset (unless the reset asked for effects to
    /// be repeated).
    ///
    /// # Errors
    /// Whatever the effect failed with.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// async fn notify(order: tidelock::store::StoredEvent, ctx: ReactionCtx) -> Result<(), HandlerError> {
    ///     let push = async |key: String| {
    ///         println!("push {} under the idempotency key {key}", order.stream);
    ///         Ok(())
    ///     };
    ///     ctx.external(push).await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn external<T, F>(
        &self,
        effect: impl FnOnce(String) -> F,
    ) -> Result<Option<T>, HandlerError>
    where
        F: Future<Output = Result<T, HandlerError>>,
    {
        match self.shared.silent {
            true => Ok(None),
            false => effect(self.effect_key().to_owned()).await.map(Some),
        }
    }

    /// What was staged, once the handler is done.
    pub(crate) fn take(&self) -> Staged {
        self.shared.tx.finish()
    }

    /// Ends the unit of work when it is dropped, however the handler ends.
    pub(crate) fn owner(&self) -> TxOwner {
        TxOwner::new(self.shared.tx.clone())
    }

    /// The row that a projection folds into.
    pub(crate) fn row(&self) -> Option<&RecordKey> {
        self.shared.row.as_ref()
    }

    pub(crate) fn task(&self) -> &LeasedTask {
        &self.shared.task
    }
}

impl Deref for ReactionCtx {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.shared.tx
    }
}

/// The same for this reaction and this event, however often it is handled.
fn effect_key(reaction: &ReactionName, event: EventId) -> String {
    format!("{reaction}:{event}")
}
