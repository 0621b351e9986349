//! Where parts of a commit are staged, one after another, by code that shares it.

use std::fmt::{Debug, Display};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tidelock_store::{Commit, ExpectedVersion, NewEvent, StreamName};

use super::{Decision, Staged};
use crate::events::{Aggregate, ExecuteError, IntoEvents};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::reactions::HandlerError;

/// What is staged, and what events say that are.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) tidelock: Tidelock,
    pub(crate) metadata: Metadata,
    staged: Mutex<Staged>,
}

impl Stage {
    pub(crate) fn new(tidelock: &Tidelock, metadata: Metadata) -> Self {
        Self { tidelock: tidelock.clone(), metadata, staged: Mutex::default() }
    }

    /// What was staged.
    pub(crate) fn take(&self) -> Staged {
        std::mem::take(&mut self.staged())
    }

    pub(crate) fn staged(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the parts of the commit.
    pub(crate) fn change(&self, change: impl FnOnce(Commit) -> Commit) {
        let mut staged = self.staged();
        staged.commit = change(std::mem::take(&mut staged.commit));
    }

    /// Events at the end of a stream, in the conversation that this belongs to.
    pub(crate) fn append(
        &self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) {
        let events: Vec<NewEvent> = events.into_iter().map(|event| self.caused(event)).collect();
        self.change(|commit| commit.append(stream, expected, events));
    }

    /// A decision that is taken now, and again if somebody else is quicker.
    pub(crate) async fn decide<F>(
        &self,
        decide: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<Commit, HandlerError>> + Send + 'static,
    {
        let decision = Decision::new(Box::new(move || decide().boxed())).await?;
        self.staged().decisions.push(decision);
        Ok(())
    }

    /// A decision on an aggregate that is taken now, and again if somebody else is quicker.
    pub(crate) async fn execute<A, D, X>(
        &self,
        id: &str,
        decide: impl Fn(&A) -> Result<D, X> + Clone + Send + Sync + 'static,
    ) -> Result<(), ExecuteError<X>>
    where
        A: Aggregate,
        D: IntoEvents<A::Event> + Send + 'static,
        X: Display + Debug + Send + Sync + 'static,
    {
        let command = self.tidelock.aggregate::<A>(id).decision().metadata(self.metadata.clone());
        let first = command.clone().propose(decide.clone()).await?;
        let again = move || {
            let proposed = command.clone().propose(decide.clone());
            async move { proposed.await.map_err(|error| HandlerError::again(error.to_string())) }
                .boxed()
        };
        self.staged().decisions.push(Decision::taken(Box::new(again), first));
        Ok(())
    }

    /// What the event says itself counts; what it leaves out is inherited.
    fn caused(&self, event: NewEvent) -> NewEvent {
        let mut metadata = Metadata::from_json(&event.metadata);
        metadata.correlation = metadata.correlation.or_else(|| self.metadata.correlation.clone());
        metadata.causation = metadata.causation.or(self.metadata.causation);
        metadata.reaction = metadata.reaction.or_else(|| self.metadata.reaction.clone());
        // It was JSON before, and three short fields do not change that.
        match metadata.to_json() {
            Ok(metadata) => event.with_metadata(metadata),
            Err(_) => event,
        }
    }
}
