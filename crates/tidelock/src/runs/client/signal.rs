//! A signal to a run: buffered, in order, and there once.
//!
//! A signal is an entry in the run's history. One that comes before the run is started waits there
//! for it; one that is sent again under its id is the same event, which the store keeps once; one
//! to a run that has ended is refused.

use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{
    Commit, EventId, ExpectedRevision, ExpectedVersion, NewEvent, RawJson, Result as StoreResult,
    Slot, StoreErrorKind, StoreExt, Wake, When,
};

use super::commit_target::{CommitTarget, Request};
use super::proposal::{News, Proposal};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::runs::history::{Entry, Signalled};
use crate::runs::names::SignalName;
use crate::runs::summary::Summarized;
use crate::runs::{RunError, RunId, history, keys};

/// A signal that is to be sent: await it.
///
/// It is stored when this returns, whether anybody waits for it or not. Signals of one name are
/// received in the order in which they were stored.
#[derive(Debug)]
#[must_use = "nothing is sent before this is awaited"]
pub struct SendSignal {
    to: CommitTarget,
    letter: Result<SignalRequest, RunError>,
}

impl SendSignal {
    pub(crate) fn new(to: CommitTarget, letter: Result<SignalRequest, RunError>) -> Self {
        Self { to, letter }
    }

    /// The same, under an id: sent again under it, it is received once.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(letter) = &mut self.letter {
            letter.content.id = id.into();
        }
        self
    }

    /// The same, only to a run that was started: [`NoRun`](RunError::NoRun) if it was not.
    /// Otherwise the signal waits for its run.
    pub fn to_started(mut self) -> Self {
        if let Ok(letter) = &mut self.letter {
            letter.buffered = false;
        }
        self
    }
}

impl IntoFuture for SendSignal {
    type Output = Result<(), RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.letter?.send_to(self.to).await }.boxed()
    }
}

/// A signal and whom it is for.
#[derive(Debug, Clone)]
pub(crate) struct SignalRequest {
    pub(crate) run: RunId,
    pub(crate) content: Signalled,
    pub(crate) metadata: Metadata,
    /// Whether it may wait for a run that is not there yet.
    buffered: bool,
    /// What a run that has ended does not do, by which a refusal is told.
    refusal: &'static str,
}

impl SignalRequest {
    /// A signal of a user's, under a fresh id.
    pub(crate) fn new(
        run: RunId,
        signal: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Self, RunError> {
        let signal = SignalName::new(signal)?;
        let about = |e: tidelock_store::StoreError| {
            e.about(format_args!("signal {:?} to run {:?}", signal.as_str(), run.as_str()))
        };
        let payload = RawJson::new(payload).map_err(about)?;
        let letter = Self::of(run, signal.as_str(), payload, "takes no more signals");
        Ok(Self { buffered: true, ..letter })
    }

    /// The same; the event that it becomes says this.
    #[must_use]
    pub(crate) fn about(mut self, metadata: &Metadata) -> Self {
        self.metadata = metadata.clone();
        self
    }

    /// One of Tidelock's own, which does not wait for a run that is not there.
    pub(crate) fn reserved(
        run: RunId,
        signal: &'static str,
        payload: RawJson,
        refusal: &'static str,
    ) -> Self {
        Self::of(run, signal, payload, refusal)
    }

    fn of(run: RunId, signal: &str, payload: RawJson, refusal: &'static str) -> Self {
        let content =
            Signalled { signal: signal.to_owned(), id: EventId::fresh().to_string(), payload };
        Self { run, content, metadata: Metadata::new(), buffered: false, refusal }
    }

    /// The same; under an operation, sent once.
    #[must_use]
    pub(crate) fn once(mut self, operation: Option<&str>) -> Self {
        if let Some(id) = operation {
            self.content.id = id.to_owned();
        }
        self
    }

    /// Sends it at once.
    pub(crate) async fn send(self, tidelock: &Tidelock) -> Result<(), RunError> {
        self.send_to(CommitTarget::Store(tidelock.clone())).await
    }

    async fn send_to(self, to: CommitTarget) -> Result<(), RunError> {
        let (run, id) = (self.run.clone(), self.content.id.clone());
        to.take(self).await.map(drop).map_err(|error| named(run, id, error))
    }

    /// Decides on the run as it is: nothing to do if the signal is there, a commit that puts it
    /// there otherwise.
    pub(crate) async fn propose(&self, tidelock: &Tidelock) -> Result<Proposal<News>, RunError> {
        let store = tidelock.store();
        let slot = store.get_one(&keys::summary(&self.run)).await?;
        match (Summarized::of(&self.run, &slot)?, slot) {
            (None, Slot::Absent) if self.buffered => {
                Ok(Proposal::commit(self.parts(ExpectedRevision::Absent)?, News::New))
            }
            (None, Slot::Deleted(_)) => Err(RunError::Removed { run: self.run.clone() }),
            (None, _) => Err(RunError::NoRun { run: self.run.clone() }),
            (Some(there), _) if there.summary.state.is_ended() => {
                self.refuse(tidelock, &there).await
            }
            (Some(there), _) => {
                let parts = self.parts(ExpectedRevision::Revision(there.revision))?;
                Ok(Proposal::commit(parts.wake(Wake::at(there.item(), When::NOW)), News::New))
            }
        }
    }

    fn parts(&self, expected: ExpectedRevision) -> StoreResult<Commit> {
        let append = [self.event()?];
        let commit = Commit::new().append(&keys::stream(&self.run), ExpectedVersion::Any, append);
        Ok(commit.guard_record(&keys::summary(&self.run), expected))
    }

    fn event(&self) -> StoreResult<NewEvent> {
        let event = Entry::Signalled(self.content.clone()).encode()?.with_id(self.event_id());
        Ok(event.with_metadata(self.metadata.to_json()?))
    }

    fn event_id(&self) -> EventId {
        keys::signal_event(&self.run, &self.content.id)
    }

    /// Whether it was sent before; under its id, something else must not have been.
    pub(crate) async fn is_there(
        &self,
        tidelock: &Tidelock,
        run: &Summarized,
    ) -> Result<bool, RunError> {
        match history::find(&**tidelock.store(), run, self.event_id()).await? {
            None => Ok(false),
            Some(Entry::Signalled(there)) if self.content.says_the_same(&there) => Ok(true),
            Some(_) => {
                Err(RunError::OtherSignal { run: self.run.clone(), id: self.content.id.clone() })
            }
        }
    }

    /// A run that has ended takes no signal; but whoever sends one again, because the first reply
    /// was lost, has done so.
    async fn refuse(
        &self,
        tidelock: &Tidelock,
        there: &Summarized,
    ) -> Result<Proposal<News>, RunError> {
        if self.is_there(tidelock, there).await? {
            return Ok(Proposal::Answer(News::Known));
        }
        let (run, state) = (self.run.clone(), there.summary.state);
        Err(RunError::Ended { run, state, why: self.refusal })
    }
}

impl Request for SignalRequest {
    fn run(&self) -> &RunId {
        &self.run
    }

    fn propose<'a>(
        &'a self,
        tidelock: &'a Tidelock,
    ) -> BoxFuture<'a, Result<Proposal<News>, RunError>> {
        self.propose(tidelock).boxed()
    }
}

/// The store knows event ids; people know ids of signals.
fn named(run: RunId, id: String, error: RunError) -> RunError {
    match error {
        RunError::Store(error) if error.kind() == StoreErrorKind::IdempotencyMismatch => {
            RunError::OtherSignal { run, id }
        }
        other => other,
    }
}
