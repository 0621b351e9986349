//! The target of a run request: the store, or a commit that a reaction or a step is about to make.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::StoreError;

use super::RunError;
use super::proposal::{Proposal, RequestOutcome, carry_out};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::runs::RunId;
use crate::staging::Decision;

/// A request to a run, decided again after a conflict.
pub(crate) trait Request: Send + Sync + 'static {
    /// The run.
    fn run(&self) -> &RunId;

    /// Decides on the current state of the run.
    fn propose<'a>(
        &'a self,
        tidelock: &'a Tidelock,
    ) -> BoxFuture<'a, Result<Proposal<RequestOutcome>, RunError>>;
}

/// Where a request goes.
pub(crate) enum CommitTarget {
    /// To the store, at once.
    Store(Tidelock),
    /// Into a later commit, through this callback.
    Commit(Tidelock, Box<dyn FnOnce(Decision) -> Result<(), StoreError> + Send>),
}

impl CommitTarget {
    pub(crate) fn tidelock(&self) -> &Tidelock {
        match self {
            Self::Store(tidelock) | Self::Commit(tidelock, _) => tidelock,
        }
    }

    /// Executes the request, or stages it. A staged request counts as new.
    pub(crate) async fn take(self, request: impl Request) -> Result<RequestOutcome, RunError> {
        match self {
            Self::Store(tidelock) => {
                let contended = RunError::contended(request.run());
                carry_out(&tidelock, contended, || request.propose(&tidelock)).await
            }
            Self::Commit(tidelock, stage) => {
                stage(decision(tidelock, Arc::new(request)).await?)?;
                Ok(RequestOutcome::New)
            }
        }
    }
}

/// A decision that is taken now, and again if the commit conflicts.
async fn decision(tidelock: Tidelock, request: Arc<impl Request>) -> Result<Decision, RunError> {
    let first = request.propose(&tidelock).await?.into_parts();
    let again = move || {
        let (tidelock, request) = (tidelock.clone(), request.clone());
        let proposed = async move {
            Ok(request.propose(&tidelock).await.map_err(HandlerError::again)?.into_parts())
        };
        proposed.boxed()
    };
    Ok(Decision::taken(Box::new(again), first))
}

impl fmt::Debug for CommitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store(_) => "Store",
            Self::Commit(..) => "Commit",
        })
    }
}
