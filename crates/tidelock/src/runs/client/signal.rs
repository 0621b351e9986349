//! Signals to a run: durable, ordered and deduplicated.
//!
//! A signal is an entry in the run's history. A signal to a run that is not started yet waits
//! there. A signal that is repeated under its id is the same event, which the store keeps once. A
//! signal to a run that has ended is refused.

use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{
    Commit, EventId, ExpectedRevision, ExpectedVersion, NewEvent, RawJson, Result as StoreResult,
    Slot, StoreErrorKind, StoreExt, Wake, When,
};

use super::commit_target::{CommitTarget, Request};
use super::proposal::{Proposal, RequestOutcome};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::runs::history::{Entry, Signalled};
use crate::runs::names::SignalName;
use crate::runs::summary::Summarized;
use crate::runs::{RunError, RunId, history, keys};

/// A signal to send: await it.
///
/// The signal is stored when the future completes, whether the run waits for it or not. Signals of
/// one name are received in the order in which they were stored.
#[derive(Debug)]
#[must_use = "nothing is sent before this is awaited"]
pub struct SendSignal {
    to: CommitTarget,
    request: Result<SignalRequest, RunError>,
}

impl SendSignal {
    pub(crate) fn new(to: CommitTarget, request: Result<SignalRequest, RunError>) -> Self {
        Self { to, request }
    }

    /// Sets the signal's id: a signal repeated under it is received once.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(request) = &mut self.request {
            request.content.id = id.into();
        }
        self
    }

    /// Requires that the run was started; otherwise the result is [`NoRun`](RunError::NoRun). By
    /// default the signal waits for its run.
    pub fn to_started(mut self) -> Self {
        if let Ok(request) = &mut self.request {
            request.buffered = false;
        }
        self
    }
}

impl IntoFuture for SendSignal {
    type Output = Result<(), RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.request?.send_to(self.to).await }.boxed()
    }
}

/// A signal and its run.
#[derive(Debug, Clone)]
pub(crate) struct SignalRequest {
    pub(crate) run: RunId,
    pub(crate) content: Signalled,
    pub(crate) metadata: Metadata,
    /// Whether it may wait for a run that does not exist yet.
    buffered: bool,
    /// What the error says that an ended run does not do.
    refusal: &'static str,
}

impl SignalRequest {
    /// A user's signal, under a fresh id.
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
        let request = Self::of(run, signal.as_str(), payload, "takes no more signals");
        Ok(Self { buffered: true, ..request })
    }

    /// Sets the metadata of its event.
    #[must_use]
    pub(crate) fn about(mut self, metadata: &Metadata) -> Self {
        self.metadata = metadata.traced().into_owned();
        self
    }

    /// A reserved signal, which requires that the run exists.
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
        let metadata = Metadata::new().traced().into_owned();
        Self { run, content, metadata, buffered: false, refusal }
    }

    /// Sets the idempotency key.
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

    /// Decides on the current state of the run: an answer if the signal is stored, otherwise a
    /// commit that stores it.
    pub(crate) async fn propose(
        &self,
        tidelock: &Tidelock,
    ) -> Result<Proposal<RequestOutcome>, RunError> {
        let store = tidelock.store();
        let slot = store.get_one(&keys::summary(&self.run)).await?;
        match (Summarized::of(&self.run, &slot)?, slot) {
            (None, Slot::Absent) if self.buffered => {
                Ok(Proposal::commit(self.parts(ExpectedRevision::Absent)?, RequestOutcome::New))
            }
            (None, Slot::Deleted(_)) => Err(RunError::Removed { run: self.run.clone() }),
            (None, _) => Err(RunError::NoRun { run: self.run.clone() }),
            (Some(there), _) if there.summary.state.is_ended() => {
                self.refuse(tidelock, &there).await
            }
            (Some(there), _) => {
                let parts = self.parts(ExpectedRevision::Revision(there.revision))?;
                Ok(Proposal::commit(
                    parts.wake(Wake::at(there.item(), When::NOW)),
                    RequestOutcome::New,
                ))
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

    /// Whether it is stored already. Another signal under its id is an error.
    pub(crate) async fn is_there(
        &self,
        tidelock: &Tidelock,
        run: &Summarized,
    ) -> Result<bool, RunError> {
        match history::find(&**tidelock.store(), run, self.event_id()).await? {
            None => Ok(false),
            Some(Entry::Signalled(there)) if self.content.is_same_signal(&there) => Ok(true),
            Some(_) => {
                Err(RunError::OtherSignal { run: self.run.clone(), id: self.content.id.clone() })
            }
        }
    }

    /// Refuses a signal to a run that has ended, unless it repeats one that is stored.
    async fn refuse(
        &self,
        tidelock: &Tidelock,
        there: &Summarized,
    ) -> Result<Proposal<RequestOutcome>, RunError> {
        if self.is_there(tidelock, there).await? {
            return Ok(Proposal::Answer(RequestOutcome::Known));
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
    ) -> BoxFuture<'a, Result<Proposal<RequestOutcome>, RunError>> {
        self.propose(tidelock).boxed()
    }
}

/// Reports the signal's id instead of the event id that the store knows.
fn named(run: RunId, id: String, error: RunError) -> RunError {
    match error {
        RunError::Store(error) if error.kind() == StoreErrorKind::IdempotencyMismatch => {
            RunError::OtherSignal { run, id }
        }
        other => other,
    }
}
